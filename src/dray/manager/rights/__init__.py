"""Which caller may have which frame decided: one table, and what its rows ask.

Other rooms use these modules; the others are private to this room:

    table      the right that each frame needs
    queues     rights at queues, also of other managers
    acts       which acts of callers are traced
    overview   who is connected, by which rules, and what callers did
    tokens     callers that show a token
    changes    what follows when other rules hold
"""
