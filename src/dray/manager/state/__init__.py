"""The durable state: only facts change it, at a start the same way as in a turn.

Every room above reads it. It is written whole into a checkpoint.

Other rooms use these modules; the others are private to this room:

    state             all of it, and `apply`
    snapshots         all of it as bytes, for a checkpoint
    outcomes          outcomes of transactions and batches
    unfinished        uploads that are not whole yet
"""
