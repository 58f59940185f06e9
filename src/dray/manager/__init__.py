"""The queue manager: decides what every request, message and order ack leads to. Never waits.

    turn             the front: an event comes in, effects go out
    dispatch         which room decides about a frame, and what it is handed for that
    requests         what a client may ask
    incoming         what comes from other managers by their streams
    peers            what managers say to each other
    relay            what two programs pass to each other through managers
    transactions     what is gathered until a commit
    rights           which caller may have which frame decided
    change           what one fact brings with it: copies, dead letters, acknowledgments
    works            what is done portion by portion
    context          what a turn works with: state, store, time, effects
    own_messages     what the manager itself sends
    follow_up        what an event leaves to be done for others
    untold_ends      ends of messages of which their sources are still to be told
    disk             where records lie, how much room there is on the disk and in the log
    state            the durable state, made by facts
    queue            one queue: its entries, in order
    entries          packed entries: the bytes of one queued message
    session          one accepted connection
    events, facts, notices    what the manager hears and does, what it logs, what it reports

A room imports from those below it, never from those above, and only what their faces name: the face
of a room is its `__init__.py`. State that belongs to one subject lives in an object of that
subject, which `dispatch` makes and hands to the rooms that need it.
"""
