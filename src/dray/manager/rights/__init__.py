"""Which caller may have which frame decided: one table, and what its rows ask.

Other rooms use these modules; the others are private to this room:

    rights     sessions, the rules that hold, leases, acts lately, and who is told of them
    table      the right that each frame needs
    queues     rights at queues, also of other managers
    acts       which acts of callers are traced
    tokens     callers that show a token
    changes    what follows when other rules hold
"""
