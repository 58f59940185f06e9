"""Streams from other managers: which messages enter, and the word to their source.

The turn hands on the frames of streams. The `peers` room has the parts that both ends share, and
the sending half.

Other rooms use these modules; the others are private to this room:

    arrivals         frames with messages, and pieces that came before their commit
    end_of_stream    the frame that ends a stream
"""
