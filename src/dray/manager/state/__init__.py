"""The durable state: only facts change it, at a start the same way as in a turn.

Every room above reads it. It is written whole into a checkpoint.
"""
