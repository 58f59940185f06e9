"""The disk as the manager sees it: where records lie, and how much room is left.

Room is left on the disk, and in the log for what one turn says. The text files of queues are
written here as facts change the queues. Every room above asks here.

Other rooms use these modules; the others are private to this room:

    placing        where the records of a frame go
    envelopes      what travels with a record
    room           room on the disk, and in the log
    queue_files    paths and contents of the text files of queues
"""
