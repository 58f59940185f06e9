"""Records of one frame into the heap: checked, neighbours written in one piece, then told apart.

A write of its own for each small record costs more than all else that is done for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby, repeat
from typing import NamedTuple

from crc32c import crc32c as checksum

from dray.errors import ProtocolError, StoreFull
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind
from dray.store.store import Store
from dray.wire.peer_frames import Data
from dray.wire.record import HEADER_BYTES, RecordHeader, read_header

_extent_of: Callable[[tuple[int, int, int]], Extent] = partial(tuple.__new__, Extent)
"""Without a call of a Python function for each record."""


class Span(NamedTuple):
    """The place of a record in the body of its frame, and the kind of its heap file."""

    offset: int
    length: int
    kind: Kind = Kind.RECOVERABLE

    @property
    def stop(self) -> int:
        """The offset at which the next one begins."""
        return self.offset + self.length


def place_all(store: Store, body: memoryview, spans: Sequence[Span]) -> list[Extent]:
    """Place the records at `spans` of `body`, in order; give where each lies now.

    Raises StoreFull, and then nothing is kept; StorePoisoned.
    """
    places: list[Extent] = []
    runs: list[Extent] = []
    try:
        for run in _runs(spans, store.heap_file_bytes):
            first = run[0].offset
            place = store.place(body[first : run[-1].stop], run[0].kind)
            runs.append(place)
            shift = place.offset - first
            places += [_extent_of((place.file, at + shift, length)) for at, length, _ in run]
    except BaseException:
        for place in runs:
            store.discard(place)
        raise
    return places


def place_batch(
    store: Store, body: memoryview, sizes: Sequence[int], kinds: Sequence[Kind]
) -> list[Extent]:
    """Place all of `body`, of which the records have `sizes`; give where each lies now.

    As `place_all` does with records that leave no gap, in less than half the time. Raises
    StoreFull, and then nothing is kept; StorePoisoned.
    """
    if len(sizes) == 1:
        return [store.place(body, kinds[0])]
    pieces: list[Extent] = []
    places: list[Extent] = []
    offset = at = 0
    try:
        for kind, run in groupby(kinds):
            run_sizes = sizes[at : (at := at + len(list(run)))]
            end = offset + sum(run_sizes)
            piece = store.place(body[offset:end], kind)
            pieces.append(piece)
            file = piece.file
            starts = accumulate(run_sizes, initial=piece.offset)
            places += map(_extent_of, zip(repeat(file), starts, run_sizes, strict=False))
            offset = end
    except StoreFull:
        for piece in pieces:
            store.discard(piece)
        raise
    return places


def _runs(spans: Sequence[Span], bytes_max: int) -> Iterator[list[Span]]:
    """Spans of one kind that adjoin, together no longer than one heap file."""
    run: list[Span] = []
    for span in spans:
        if run:
            goes_on = span.offset == run[-1].stop and span.kind is run[-1].kind
            if not goes_on or span.stop - run[0].offset > bytes_max:
                yield run
                run = []
        run.append(span)
    if run:
        yield run


def check_records(head: Data, body: memoryview) -> list[RecordHeader]:
    """Read the records of a Data frame; raises `ProtocolError` for any that is not as sent."""
    headers, offset, size = [], 0, len(body)
    for envelope in head.envelopes:
        end = offset + envelope.length
        if envelope.length < HEADER_BYTES or end > size:
            raise ProtocolError("a Data frame's envelopes do not fit its body")
        header = read_header(body, offset)
        record_bytes = HEADER_BYTES + header.properties_bytes + header.body_bytes
        if record_bytes != envelope.length:
            raise ProtocolError("a message record does not fit its place in the frame")
        if checksum(body[offset:end]) != envelope.crc:
            raise ProtocolError("a message was damaged on the way: its CRC32C does not fit")
        headers.append(header)
        offset = end
    if offset != size or not headers:
        raise ProtocolError("a Data frame's envelopes do not fit its body")
    return headers
