"""Runs: sends of a transaction to one queue, gathered until one frame carries them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from dray.client.calls.messages import Record
from dray.model.limits import FRAME_BODY_BYTES_MAX, MIB
from dray.model.message import Buffer
from dray.wire.message_frames import Send

_RUN_BYTES = MIB
"""A run this long goes out: enough to fill a write, little enough to keep the disk busy."""
_RUN_MESSAGES = 1_000


class SendRun:
    """Sends to one queue that have not gone out yet."""

    __slots__ = ("buffers", "bytes", "crcs", "guarded", "queue", "sizes")

    def __init__(self, queue: int, *, guarded: bool) -> None:
        self.queue = queue
        self.guarded = guarded
        self.buffers: list[Buffer] = []
        self.sizes: list[int] = []
        self.crcs: list[int] = []
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether it should go out now."""
        return self.bytes >= _RUN_BYTES or len(self.sizes) >= _RUN_MESSAGES

    def takes(self, queue: int, size: int, *, guarded: bool) -> bool:
        """Whether a send to a queue can join it."""
        return (
            self.queue == queue
            and self.guarded is guarded
            and self.bytes + size <= FRAME_BODY_BYTES_MAX
        )

    def add(self, records: Sequence[Record], first: int = 0) -> int:
        """Add sends from one on until the frame has enough; say with which one to go on.

        It must take the first of them.
        """
        if not first and 1 < len(records) <= _RUN_MESSAGES - len(self.sizes):
            # A batch that fits, as most do.
            heads, bodies, sizes, crcs = zip(*records, strict=True)
            if self.bytes + sum(sizes) <= _RUN_BYTES:
                self.buffers += chain.from_iterable(zip(heads, bodies, strict=True))
                self.sizes += sizes
                self.crcs += crcs
                self.bytes += sum(sizes)
                return len(records)
        at, size = first, self.bytes
        room = _RUN_MESSAGES - len(self.sizes)
        for record in records[first:] if first else records:
            if at > first and (
                size >= _RUN_BYTES
                or at - first >= room
                or size + record.size > FRAME_BODY_BYTES_MAX
            ):
                break
            self.buffers += (record.head, record.body)
            self.sizes.append(record.size)
            self.crcs.append(record.crc)
            size += record.size
            at += 1
        self.bytes = size
        return at

    def head(self, transaction: int) -> Send:
        """The head of the frame that carries it; the body is `buffers`."""
        return Send(self.queue, transaction, self.sizes, self.crcs, self.guarded)
