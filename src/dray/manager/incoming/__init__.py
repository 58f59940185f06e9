"""What comes from other managers by their streams: which messages enter, what their source hears.

The turn hands on the frames of streams. What both ends share, and what this manager sends itself,
is in `peers`.
"""
