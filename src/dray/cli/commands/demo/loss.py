"""Losing fragments on purpose: they are taken from the destination queue with a raw handle (S0-18).

The lost fragments are remembered, so that the holes the receiving side reports can be compared with
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import dray
from dray.cli.commands.demo.sending import SentFile
from dray.errors import DrayError

VICTIMS_MAX = 3


class Hole(NamedTuple):
    """The fragments of one large message that are not there: first and last number of each gap."""

    sequence_id: str
    label: str
    missing: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        """For people: "2-3, 7"."""
        return ", ".join(
            str(first) if first == last else f"{first}-{last}" for first, last in self.missing
        )


def plan(sent: Sequence[SentFile]) -> list[tuple[SentFile, list[int]]]:
    """The fragments to lose: of the largest files, a pair in the middle, the last, the first."""
    victims = sorted(sent, key=lambda file: (-file.origin.fragment_count, file.origin.label))
    chosen = []
    for turn, file in enumerate(victims[:VICTIMS_MAX]):
        count = file.origin.fragment_count
        middle = max(1, count // 2)
        numbers = ([middle, min(middle + 1, count)], [count], [1])[turn % 3]
        if count:
            chosen.append((file, sorted(set(numbers))))
    return chosen


def lose(
    manager: dray.Manager, queue: str, victims: Iterable[tuple[SentFile, list[int]]]
) -> list[Hole]:
    """Take the planned fragments out of the queue, for ever; give the holes this makes."""
    raw = manager.queue(queue, raw=True)
    return [_lose(raw, file, numbers) for file, numbers in victims]


def _lose(raw: dray.Queue, file: SentFile, numbers: Sequence[int]) -> Hole:
    """A transaction's messages lie together in a queue, so fragment n is n - 1 after the first."""
    first = raw.peek_by_correlation_id(file.sequence_id)
    assert first.lookup_id is not None
    for number in numbers:
        lookup_id = first.lookup_id + number - first.app_specific
        found = raw.peek_by_lookup_id(lookup_id)
        if (found.correlation_id, found.app_specific) != (file.sequence_id, number):
            raise DrayError(
                f"position {lookup_id} should hold fragment {number} of {file.sequence_id} but does"
                " not: messages of one transaction do not lie together"
            )
        raw.receive_by_lookup_id(lookup_id)
    return Hole(file.sequence_id, file.origin.label, ranges(numbers))


def ranges(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as runs: 2, 3, 7 is (2, 3), (7, 7)."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)
