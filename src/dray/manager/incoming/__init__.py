"""Streams from other managers: which messages enter, and the word to their source.

`ArrivingStreams` has the table of their frames, and the sources that wait. The sending half, and
the parts that both ends share, are in `dray.manager.peers`.

These ask it: `dispatch` and `requests`.
"""

from dray.manager.incoming.streams import ArrivingStreams
