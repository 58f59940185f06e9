"""What one fact of change brings with it: journals, dead letters, acknowledgments, freed room.

Whoever lets messages join or leave a queue asks here, so that nothing that follows is forgotten.
"""
