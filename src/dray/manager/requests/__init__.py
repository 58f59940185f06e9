"""The requests of clients: each module answers a few kinds.

Other rooms use these modules; the others are private to this room:

    requests    which function answers each frame, and what requests leave for later
    backup      what a backup holds: a stopped store is backed up by the same code
"""
