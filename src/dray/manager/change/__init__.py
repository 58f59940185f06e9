"""What one fact of change brings with it: journals, dead letters, acknowledgments, freed room.

Whoever lets messages join or leave a queue asks here, so that nothing that follows is forgotten.
What the manager does by itself is here too: expiry, setting damaged records aside, moving records
together in quiet moments, and making the files of queues fit the state.
"""
