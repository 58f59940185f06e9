"""The queue manager: decides what every request, message and order ack leads to. Never waits.

    turn             the front: an event goes to the room that decides about it
    requests         what a client may ask
    peers            what managers say to each other
    transactions     what is gathered until a commit
    change           what one fact brings with it: copies, dead letters, acknowledgments
    disk             where records lie, how much room there is, the files of queues
    context          what the rooms above share during a turn
    state            the durable state, made by facts
    queue            one queue: its entries, in order
    events, facts, notices    what the manager hears and does, what it logs, what it reports

A room imports from those below it, never from those above.
"""
