"""Streams from other managers: which messages enter, and the word to their source.

The turn hands on the frames of streams. The `peers` room has the parts that both ends share, and
the sending half.
"""
