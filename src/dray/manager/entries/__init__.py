"""The packed entries of queues: 79 bytes for each message, read, made and counted.

An entry is a key, which gives its place in the queue, and a *tail*, which facts carry. This room
knows no queue: it is told bytes, and gives bytes or numbers.

Other rooms use these modules; the others are private to this room:

    layout    where the fields of an entry are
    entry     one entry
    tails     what a fact carries of a message
    packed    many entries, one behind the other
    staged    records that are placed, but in no queue yet
"""
