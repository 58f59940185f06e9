"""Unfinished uploads: large messages of which a part is durable here, in no queue yet.

begun     room is reserved, nothing is placed
marked    the parts so far are durable, with the digest of the body that they hold
gone      committed: the parts are in their queue; or dropped, or too old: their places are given up

An upload is a transaction (its number is that of the large message's header) of which a crash, or
the end of its client's connection, keeps what was marked. Made by facts and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from dray.manager.entries import extents_of, place_of, split_tails
from dray.manager.facts import Committed, Fact, Restored, UploadBegun, UploadDropped, UploadMarked
from dray.store.heap.heap import Extent


class Upload(msgspec.Struct, array_like=True):
    """One unfinished upload. `parts` counts records, `size` and `digest` are of the body."""

    number: int
    queue: int
    source: bytes
    reserved: int
    begun_us: int
    used_us: int
    size: int = 0
    digest: bytes = b""
    tails: list[bytes] = []
    """Positions of the marked parts, in runs as they were marked."""
    caller: str = ""
    """The name of the caller that began it, and may go on with it."""

    @property
    def parts(self) -> int:
        """The number of durable records."""
        return sum(len(split_tails(run)) for run in self.tails)

    @property
    def bytes_placed(self) -> int:
        """The bytes that they take."""
        return sum(extent.length for run in self.tails for extent in extents_of(run))


class Uploads:
    """All unfinished uploads of a manager, by number."""

    def __init__(self) -> None:
        self.kept: dict[int, Upload] = {}
        """By number, the oldest first."""

    def __len__(self) -> int:
        """The number of uploads."""
        return len(self.kept)

    def __iter__(self) -> Iterator[Upload]:
        """All of them, the oldest first."""
        return iter(self.kept.values())

    def count_of(self, caller: str) -> int:
        """The number of them that a caller has begun."""
        return sum(each.caller == caller for each in self)

    def get(self, number: int) -> Upload | None:
        """One of them."""
        return self.kept.get(number)

    def apply(self, fact: Fact, released: Callable[[Extent], None]) -> None:
        """Make a fact true."""
        match fact:
            case UploadBegun():
                when_us, caller = fact.when_us, fact.caller
                self.kept[fact.number] = Upload(
                    fact.number, fact.queue, fact.source, fact.reserved, when_us, when_us,
                    caller=caller,
                )  # fmt: skip
            case UploadMarked():
                upload = self.kept[fact.number]
                upload.tails.append(fact.tails)
                upload.size, upload.digest = fact.size, fact.digest
                upload.used_us = fact.when_us
            case Committed():
                # Its places are those of messages now.
                self.kept.pop(fact.transaction, None)
            case UploadDropped():
                self._drop(fact.number, released)
            case Restored():
                # Its outcome in the incarnation that was undone is not known here.
                for number in list(self.kept):
                    self._drop(number, released)
            case _:
                return

    def live(self) -> Iterator[tuple[Extent, int]]:
        """Place and CRC32C of every record that is kept for an upload."""
        for upload in self:
            for run in upload.tails:
                yield from map(place_of, split_tails(run))

    def state(self) -> list[Upload]:
        """Everything, for a checkpoint."""
        return list(self)

    def restore(self, uploads: list[Upload]) -> None:
        """Read what `state` gave."""
        self.kept = {each.number: each for each in uploads}

    def _drop(self, number: int, released: Callable[[Extent], None]) -> None:
        upload = self.kept.pop(number, None)
        if upload is not None:
            for run in upload.tails:
                for extent in extents_of(run):
                    released(extent)
