"""What must be true of a world, kept by an observer who only hears what clients say and are told.

Written without a look at the manager: it knows which transactions producers began, what they were
told of them, and every message that a consumer saw or took. From that it predicts. Promises that
can be judged at once raise at once; the rest when the world has come to rest (`check`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import crc32c

from dray.model.ids import ManagerId, join_id
from dray.testing.promises import BrokenPromiseError
from dray.wire.message_frames import Envelope
from dray.wire.record import read_header

MARK_FIRST, MARK_LAST, MARK_LARGE = 1, 2, 8


class Sent:
    """One transaction of a producer: what it holds for each queue, in order."""

    def __init__(self, producer: str, manager: str, number: int, order: int) -> None:
        """Begin empty; `order` counts the producer's transactions."""
        self.producer = producer
        self.manager = manager
        self.number = number
        self.order = order
        self.status = "open"
        self.groups: dict[str, list[str]] = {}

    @property
    def id(self) -> str:
        """The text form."""
        return join_id(ManagerId(self.manager), self.number)


class Expected(NamedTuple):
    """One message as it was sent. `part` is 0 in a plain one."""

    sent: Sent
    queue: str
    record: bytes
    sequence_id: str = ""
    part: int | str = 0


class Large:
    """A large message: its parts as they were sent, and what became of them."""

    def __init__(self, count: int) -> None:
        """Begin with `count` fragments, none of them sent."""
        self.count = count
        self.present: dict[int | str, str] = {}
        self.bodies: dict[int, bytes] = {}
        self.taken = False
        self.end = ""

    def missing(self) -> list[Any]:
        """What a reader can know to be missing."""
        found: list[Any] = [] if "header" in self.present else ["header"]
        here = sorted(each for each in self.present if isinstance(each, int))
        top = self.count if "trailer" in self.present else max(here, default=0)
        gap: list[int] = []
        for number in range(1, top + 2):
            if number <= top and number not in self.present:
                gap = [gap[0] if gap else number, number]
            elif gap:
                found.append(gap)
                gap = []
        return found if "trailer" in self.present else [*found, "trailer"]


class Shadow:
    """The observer."""

    def __init__(self) -> None:
        """Begin with nothing seen."""
        self.messages: dict[str, Expected] = {}
        self.large: dict[str, Large] = {}
        self.sent: list[Sent] = []
        self.taken: set[str] = set()
        self.positions: dict[str, dict[int, str]] = {}
        self.seen: set[str] = set()
        self.holes_told = 0

    # ------------------------------------------------------------------------------- producers

    def begin(self, producer: str, manager: str, number: int) -> Sent:
        """A producer begins a transaction."""
        self.sent.append(Sent(producer, manager, number, len(self.sent)))
        return self.sent[-1]

    def add(self, sent: Sent, message_id: str, expected: Expected) -> None:
        """A producer sends a message in it."""
        self.messages[message_id] = expected
        sent.groups.setdefault(expected.queue, []).append(message_id)
        if expected.sequence_id:
            large = self.large[expected.sequence_id]
            large.present[expected.part] = message_id

    def settled(self, sent: Sent, *, committed: bool) -> None:
        """A producer is told what became of its transaction."""
        sent.status = "committed" if committed else "aborted"
        if not committed:
            self._never_seen(sent)

    # ------------------------------------------------------------------------------- consumers

    def saw(self, queue: str, envelope: Envelope, record: bytes) -> str:
        """A consumer is shown a message; gives its id."""
        header = read_header(record)
        message_id = join_id(ManagerId(header.source.hex()), header.number)
        expected = self.messages.get(message_id)
        if expected is None:
            raise BrokenPromiseError(f"{queue} shows {message_id}, which nobody sent")
        if expected.queue != queue:
            raise BrokenPromiseError(f"{message_id} was sent to {expected.queue}, is in {queue}")
        if expected.record != record or crc32c.crc32c(record) != envelope.crc:
            raise BrokenPromiseError(f"{message_id} in {queue} is not what was sent")
        group = expected.sent.groups[queue]
        marks = MARK_FIRST * (group[0] == message_id) | MARK_LAST * (group[-1] == message_id)
        marks |= MARK_LARGE * any(self.messages[each].sequence_id for each in group)
        if envelope.marks != marks or envelope.transaction != expected.sent.number:
            raise BrokenPromiseError(f"{message_id} in {queue} has wrong marks or transaction")
        self.at(queue, envelope.lookup_id, message_id)
        return message_id

    def at(self, queue: str, lookup_id: int, message_id: str) -> None:
        """A message is seen at a position of a queue."""
        expected = self.messages[message_id]
        if expected.sent.status in ("open", "aborted"):
            raise BrokenPromiseError(
                f"{message_id} is visible in {queue}, its transaction is {expected.sent.status}"
            )
        if message_id in self.taken:
            raise BrokenPromiseError(f"{message_id} came back to {queue} after it was taken")
        if self.positions.setdefault(queue, {}).setdefault(lookup_id, message_id) != message_id:
            raise BrokenPromiseError(f"position {lookup_id} of {queue} was used twice")
        self.seen.add(message_id)

    def took(self, message_ids: Iterable[str]) -> None:
        """A consumer's receive is committed."""
        for message_id in message_ids:
            if message_id in self.taken:
                raise BrokenPromiseError(f"{message_id} was delivered twice")
            self.taken.add(message_id)
            expected = self.messages[message_id]
            if expected.sequence_id:
                del self.large[expected.sequence_id].present[expected.part]
                self.large[expected.sequence_id].taken = True

    def whole(self, sequence_id: str, bodies: list[bytes]) -> list[str]:
        """A consumer is given a large message; gives the ids of its parts."""
        large = self.large.get(sequence_id)
        if large is None or large.end:
            raise BrokenPromiseError(
                f"large message {sequence_id} was delivered twice, or never sent"
            )
        if large.missing():
            raise BrokenPromiseError(f"{sequence_id} is called whole, it lacks {large.missing()}")
        if bodies != [large.bodies[number] for number in range(1, large.count + 1)]:
            raise BrokenPromiseError(f"{sequence_id} is not what was sent")
        numbers = range(1, large.count + 1)
        return [large.present[part] for part in ("header", *numbers, "trailer")]

    def hole(self, sequence_id: str, missing: list[Any]) -> None:
        """A consumer is told of a hole; the parts that were there are gone."""
        large = self.large.get(sequence_id)
        if large is None or large.end:
            raise BrokenPromiseError(f"the hole of {sequence_id} was told twice, or it never was")
        if not missing or missing != large.missing():
            raise BrokenPromiseError(f"{sequence_id} lacks {large.missing()}, told was {missing}")
        large.end = "holed"
        self.holes_told += 1
        self.taken.update(large.present.values())

    # -------------------------------------------------------------------------------- the end

    def check(self, *, holes_may_be_lost: bool) -> None:
        """Judge a world that has come to rest."""
        for sent in self.sent:
            if sent.status not in ("committed", "aborted"):
                raise BrokenPromiseError(f"transaction {sent.id} of {sent.producer} has no outcome")
            if sent.status == "aborted":
                self._never_seen(sent)
            else:
                self._all_taken(sent, holes_may_be_lost=holes_may_be_lost)
        for queue, positions in self.positions.items():
            self._in_order(queue, [positions[each] for each in sorted(positions)])

    def _never_seen(self, sent: Sent) -> None:
        for message_ids in sent.groups.values():
            for message_id in message_ids:
                if message_id in self.seen:
                    raise BrokenPromiseError(f"{message_id} was seen, its transaction aborted")

    def _all_taken(self, sent: Sent, *, holes_may_be_lost: bool) -> None:
        for queue, message_ids in sent.groups.items():
            for message_id in message_ids:
                if message_id in self.taken:
                    continue
                sequence_id = self.messages[message_id].sequence_id
                if sequence_id and self.large[sequence_id].missing() and holes_may_be_lost:
                    # The hole was told to a consumer that did not live to hear it.
                    continue
                raise BrokenPromiseError(
                    f"{message_id} was committed to {queue} in {sent.id} and never delivered"
                )

    def _in_order(self, queue: str, message_ids: list[str]) -> None:
        """Groups of one source in one piece, in the order of each producer's commits."""
        for manager in {sent.manager: None for sent in self.sent}:
            mine = [each for each in message_ids if self.messages[each].sent.manager == manager]
            groups: dict[int, list[str]] = {}
            last: Sent | None = None
            for message_id in mine:
                sent = self.messages[message_id].sent
                if sent is not last and sent.order in groups:
                    raise BrokenPromiseError(f"the messages of {sent.id} in {queue} are scattered")
                groups.setdefault(sent.order, []).append(message_id)
                last = sent
            for order, group in groups.items():
                wanted = [each for each in self.sent[order].groups[queue] if each in set(group)]
                if wanted != group:
                    raise BrokenPromiseError(f"{self.sent[order].id} in {queue} is out of order")
            producers: dict[str, int] = {}
            for order in groups:
                producer = self.sent[order].producer
                if producers.get(producer, -1) > order:
                    raise BrokenPromiseError(f"commits of {producer} in {queue} are out of order")
                producers[producer] = order
