"""The consequences of one fact: journals, dead letters, acknowledgments, freed room.

Code that lets messages join or leave a queue calls this room, so that no consequence is forgotten.
Work that the manager does by itself is here too: expiry, setting damaged records aside, moving
records together.

Other rooms use these modules; the others are private to this room:

    commit_fact    gathers the fact of a commit, an expiry, a purge
    departures     what follows when a message leaves
    ends           whether a message becomes a dead letter
    names          queues by name, made when first needed
    purging        removes very many messages, portion by portion
    express        messages in memory only
    expiry         what has expired leaves
    quarantine     damaged records, set aside
    sub_queues     sub-queues that nobody needs go
    compaction     records move, so that files can be freed
    lqs            the text files of queues: a start makes file and state fit
"""
