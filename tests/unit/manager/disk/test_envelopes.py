"""Which records are read while the turn lasts, and which go from their heap file to the socket."""

from __future__ import annotations

from dray.manager.disk.envelopes import bodies_in, stream_bodies_in
from dray.manager.entries import Staged, pack_tail, with_keys
from dray.model.limits import KIB
from dray.store.heap.heap import Extent
from dray.store.kinds import Kind, heap_file_number

SHORT, LONG = 1 * KIB, 65 * KIB


class Heap:
    """Every record in it is of zeros."""

    def read(self, extent: Extent, *, offset: int = 0, length: int | None = None) -> bytes:
        return bytes(extent.length)[offset:][:length]


def place(kind: Kind, length: int) -> Extent:
    return Extent(heap_file_number(kind, 1), 0, length)


def test_short_and_express_records_are_read_and_those_of_a_stream_if_they_are_express() -> None:
    recoverable, express = Kind.RECOVERABLE, Kind.EXPRESS
    for kind, length in ((recoverable, SHORT), (recoverable, LONG), (express, LONG)):
        extent = place(kind, length)
        packed = with_keys(pack_tail(Staged(extent, 0, 5, 0, 3, 0), 0, 1), 1)
        read = bytes(length)
        is_read = kind is express or length == SHORT
        assert bodies_in(Heap(), packed) == ((read if is_read else extent),)
        assert stream_bodies_in(Heap(), packed) == ((read if kind is express else extent),)
