"""Streams from other managers: which messages enter, and the word to their source.

The turn hands on the frames of streams. The `peers` room has the parts that both ends share, and
the sending half.

Other rooms use these modules; the others are private to this room:

    streams    each frame of a stream, and the sources that wait
"""
