"""How the manager uses its disk beside the log: where records lie, and how much room is left.

It also sets damaged records aside, moves records together in quiet moments, and keeps the text
files of queues. Every room above asks here; below it are the state and the store.
"""
