"""The consequences of one fact: journals, dead letters, acknowledgments, freed room.

Code that lets messages join or leave a queue calls this room, so that no consequence is forgotten.
Work that the manager does by itself is here too: expiry, setting damaged records aside, moving
records together.
"""
