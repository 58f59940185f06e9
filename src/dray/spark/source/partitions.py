"""The work of one task: large messages, or pieces of them, or a range of small messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pyspark.sql.datasource import InputPartition

from dray.spark.source.offsets import QueuePlace, QueueSpan
from dray.wire.large_frames import LargeEntry

_LENDING = "dray+unix:"
"""Through a Unix socket a landing lends its files: one task then reaches what the disk allows."""
_PARTITIONS_AT_A_TIME = 2
"""A landing has so many partitions for each task that runs at a time. The pieces of a message are
to be pulled at one time: the task with the first one ends last, and takes the digest."""


class LargeWork(NamedTuple):
    """A large message for a task, or one of its `pieces`; 0 if it is not cut."""

    place: QueuePlace
    entry: LargeEntry
    piece: int = 0
    pieces: int = 0

    @property
    def size(self) -> int:
        """Bytes that the task pulls."""
        return self.entry.size // max(1, self.pieces)

    def row(self, described: dict[str, Any]) -> dict[str, Any]:
        """The row of this piece."""
        if not self.pieces:
            return described
        return described | {"piece": self.piece, "pieces": self.pieces}


class LargePartition(InputPartition):
    """Large messages for one task."""

    def __init__(self, work: list[LargeWork]) -> None:
        """Take what to describe, and where."""
        self.work = work


class MessagePartition(InputPartition):
    """A range of small messages of one queue for one task; planned to have some."""

    def __init__(self, place: QueuePlace, span: QueueSpan, messages: int) -> None:
        """Take the range."""
        self.place = place
        self.span = span
        self.messages = messages


def divided(
    found: list[LargeWork], partitions: int, piece_bytes: int | None
) -> list[LargePartition]:
    """Divide large messages by bytes: the largest first, each to the task that has least."""
    share = sum(each.entry.size for each in found) // partitions
    work = [piece for each in found for piece in pieces_of(each, share, partitions, piece_bytes)]
    tasks: list[list[LargeWork]] = [[] for _ in range(partitions)]
    loads = [0] * len(tasks)
    for each in sorted(work, key=lambda each: each.size, reverse=True):
        lightest = loads.index(min(loads))
        tasks[lightest].append(each)
        loads[lightest] += each.size + 1
    return [LargePartition(task) for task in tasks if task]


def pieces_of(
    work: LargeWork, share: int, partitions: int, piece_bytes: int | None
) -> Iterator[LargeWork]:
    """Cut a long message that is more than the share of one task, at its fragments.

    Not one whose queue manager writes the file by itself, with threads of its own.
    """
    entry = work.entry
    is_long = piece_bytes is not None and entry.size >= max(piece_bytes, share + 1)
    if not is_long or entry.missing or work.place.url.startswith(_LENDING):
        yield work
        return
    count = min(partitions // _PARTITIONS_AT_A_TIME, entry.fragment_count)
    if count < 2:  # noqa: PLR2004 - one piece is the whole
        yield work
        return
    for piece in range(1, count + 1):
        yield work._replace(piece=piece, pieces=count)
