"""The queues that a query reads, as its planner sees them: where they are, how far they reach."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from dray.errors import InvalidConfiguration, QueueNotFound
from dray.model.classes import QueueKind
from dray.model.names import DEAD_LETTER_QUEUES, SYSTEM_JOURNAL
from dray.spark.managers import Managers
from dray.spark.source.large import large_pages
from dray.spark.source.offsets import (
    Offsets,
    QueueBirth,
    QueuePlace,
    QueueSpan,
    check_birth,
    gone_in,
    has_position,
    position_in,
    receipt_in,
    with_position,
)
from dray.spark.source.options import RANGES
from dray.spark.source.ranges import (
    first_message,
    measure,
    planned_pieces,
    tell_gone,
    warn_of_claim,
)
from dray.wire.range_frames import RangePiece

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue
    from dray.model.queue import QueueInfo
    from dray.spark.source.options import Options
    from dray.wire.large_frames import LargeEntry

logger = logging.getLogger(__name__)


_TASK_ROWS_MIN = 256
_TASK_BYTES_MIN = 64 << 10
"""A task costs about ten milliseconds, and so do these many messages or bytes."""


class Reach(NamedTuple):
    """The end to which one queue can be read; with limits also the messages and bytes up to it.

    `receipt` is that of the answer, if the queue manager was asked.
    """

    upto: int
    receipt: bytes = b""
    messages: int = 0
    bytes: int = 0


class Catalogue:
    """Finds queues by name or pattern on all managers, and asks them how far they reach."""

    def __init__(self, options: Options, *, begun: bool = False) -> None:
        """Connect to nothing yet; `begun` if a query has found queues for all patterns before."""
        self._options = options
        self._managers = Managers(options.credentials, at_once=True)
        self._places: dict[tuple[str, str], QueuePlace] = {}
        self._existing: dict[str, set[str]] = {}
        """The names of all queues of each manager, also of those that the query does not read."""
        self._fitted: set[str] = set(options.queues) if begun else set()
        """The names and patterns that a queue has fitted so far."""
        self._claims: dict[QueueBirth, tuple[int, float]] = {}
        """The first message of each queue that a receiver holds, and since when or last told."""
        self._gone: dict[QueueBirth, int] = {}
        """The last position of each queue that a message had left when it was last measured."""
        self._has_stated = False

    @property
    def has_answered(self) -> bool:
        """Whether any manager has answered so far."""
        return bool(self._existing)

    @property
    def places(self) -> list[QueuePlace]:
        """All queues, in the order of the options."""
        if not self._places:
            self.refresh()
        return list(self._places.values())

    def refresh(self) -> None:
        """Look again for the queues that fit patterns, since queues come and go.

        Queues that are named are looked for once: each answer about a range has their birth number.
        Raises `QueueNotFound` if no queue has a name, or none at any of the urls fits a pattern. A
        query that may lose messages waits if the last queue of a pattern goes while it runs.
        """
        if self._places and not any(map(_is_pattern, self._options.queues)):
            return
        found: dict[tuple[str, str], QueuePlace] = {}
        fitting = dict.fromkeys(self._options.queues, False)
        for url in self._options.urls:
            manager = self._managers.at(url)
            manager_id = manager.info().id
            queues = manager.queues()
            self._existing[manager_id] = {info.name for info in queues}
            born = {info.name: info.born for info in queues}
            for wanted in self._options.queues:
                for name in _matching(wanted, queues, url):
                    found[manager_id, name] = QueuePlace(url, manager_id, name, born[name])
                    fitting[wanted] = True
        for wanted, fits in fitting.items():
            if fits:
                self._fitted.add(wanted)
            elif self._options.fail_on_data_loss or wanted not in self._fitted:
                urls = ", ".join(self._options.urls)
                raise QueueNotFound(
                    f"no queue fits the pattern {wanted!r} at {urls}; create one or mend the option"
                    " queue",
                    queue=wanted,
                )
        self._places = found

    def forget(self) -> None:
        """Look for all queues again when they are asked for next, since one was made anew."""
        self._places = {}

    def state(self, planned: Offsets) -> None:
        """State once what the queue managers gave when a batch was planned.

        One whose store was put back since, with a driver that was away, gives new birth numbers.
        """
        for place in [] if self._has_stated else self.places:
            receipt = receipt_in(planned, place.birth)
            if receipt:
                queue = self._managers.raw_queue(place.url, place.queue)
                if measure(queue, 0, receipt=receipt).born != place.born:
                    self.forget()
        self._has_stated = True

    def known(self) -> set[tuple[str, str]]:
        """Manager id and name of every queue."""
        return set(self._places)

    def is_deleted(self, span: QueueSpan) -> bool:
        """Whether the manager of a range has no queue of its name.

        It is not deleted if none of the urls leads to the manager, or the query does not name it.
        """
        existing = self._existing.get(span.manager_id)
        return existing is not None and span.queue not in existing

    def place(self, span: QueueSpan) -> QueuePlace:
        """The place to read a range from.

        Raises `QueueNotFound` if its queue is gone, `QueueRecreated` if it is another one now.
        """
        if not self._places:
            self.refresh()
        place = self._places.get((span.manager_id, span.queue))
        if place is None:
            raise QueueNotFound(
                f"queue {span.queue!r} of manager {span.manager_id}, from which a batch is to be"
                " read, is not among the queues of this query; mend the options url and queue, or"
                " set failOnDataLoss to false to go on without a queue that was deleted",
                queue=span.queue,
            )
        check_birth(place.birth, span.born)
        return place

    def check_managers(self, start: Offsets, option: str = "startingOffsets") -> None:
        """Raise `InvalidConfiguration` if `start` names a manager that none of the urls has."""
        if not self._places:
            self.refresh()
        for manager_id in start:
            if manager_id not in self._existing:
                urls = ", ".join(self._options.urls)
                raise InvalidConfiguration(
                    f"{option} names the queue manager {manager_id}, and none of the urls"
                    f" ({urls}) leads to it; correct the id or add its url"
                )

    def check_births(self, start: Offsets) -> None:
        """Raise `QueueRecreated` if a queue is another one than the one that `start` tells of."""
        for place in self.places:
            offset = start.get(place.manager_id, {}).get(place.queue)
            if offset is not None:
                check_birth(place.birth, offset["born"])

    def latest(self, start: Offsets, ending: Offsets | None = None) -> Offsets:
        """The ends of all queues; for those that `ending` names, not beyond the position there."""
        end, ends = start, ending or {}
        for place in self.places:
            last = position_in(ends, place.birth) if has_position(ends, place.birth) else None
            reach = self.reach(place, position_in(start, place.birth), upto=last)
            end = with_position(end, place.birth, reach.upto, receipt=reach.receipt)
        return end

    def offsets_at(self, seconds: float) -> Offsets:
        """The offsets before the first message of each queue that arrived at a time or later.

        Each is found by halving, since messages arrive in the order of their positions. If the
        manager's clock was set back, it is one of several places where the time is passed.
        """
        offsets: Offsets = {}
        for place in self.places:
            queue = self._managers.raw_queue(place.url, place.queue)

            def is_reached(
                after: int, queue: Queue = queue, place: QueuePlace = place
            ) -> tuple[bool, int]:
                row = first_message(queue, place, after)
                if row is None:
                    return True, 0
                arrived = row["arrived_time"]
                return arrived is None or arrived.timestamp() >= seconds, row["lookup_id"]

            offsets = with_position(offsets, place.birth, _halved(is_reached))
        return offsets

    def count(self, span: QueueSpan) -> int:
        """The number of messages in a range."""
        return sum(each.messages for each in self._pieces(span, 1))

    def reach(
        self,
        place: QueuePlace,
        after: int,
        *,
        rows_max: int | None = None,
        bytes_max: int | None = None,
        upto: int | None = None,
        start: Offsets | None = None,
    ) -> Reach:
        """The end to which one queue can be read from a position, within limits and up to `upto`.

        It ends before the first message that a transaction holds. A single row is given even if it
        is over `bytes_max`. Raises `QueueRecreated` if the queue was made again since it was found.

        With the offsets `start` of a query, this also tells messages that left the queue before the
        query read them: it raises `StoreError`, or warns.
        """
        if upto is not None and upto <= after:
            return Reach(after)
        measured = measure(
            self._managers.raw_queue(place.url, place.queue),
            after,
            upto=upto,
            rows_max=rows_max,
            bytes_max=bytes_max,
            large=self._options.content == "large",
            plain=self._options.content == RANGES,
            receipt=receipt_in(start or {}, place.birth),
        )
        check_birth(place.birth._replace(born=measured.born), place.born)
        # A landing settles large messages ahead of small ones, which is no loss.
        if start is not None and self._options.content != RANGES:
            self._watch_gone(place, start, measured.gone)
        self._watch_claim(place, measured.held)
        return Reach(
            measured.last or after,
            measured.receipt,
            sum(each.messages for each in measured.pieces),
            sum(each.size for each in measured.pieces),
        )

    def cut(self, span: QueueSpan, pieces: int) -> Iterator[tuple[QueueSpan, int]]:
        """Parts of a range of messages, and how many each has: about the same rows and bytes.

        There are at most so many. One that is not worth a task is joined with the next, unless the
        query wants the number.
        """
        found: Iterable[RangePiece] = self._pieces(span, pieces)
        if not self._options.partitions_given:
            found = _worth_a_task(found)
        after = span.after
        for each in found:
            yield span._replace(after=after, upto=each.upto), each.messages
            after = each.upto

    def _pieces(self, span: QueueSpan, pieces: int) -> list[RangePiece]:
        place, content = self.place(span), self._options.content
        return planned_pieces(
            self._managers.raw_queue(place.url, place.queue),
            span.after,
            span.upto,
            pieces,
            large=content == "large",
            plain=content == RANGES,
        )

    def large_in(self, span: QueueSpan) -> Iterator[LargeEntry]:
        """The large messages of a range."""
        place = self.place(span)
        queue = self._managers.raw_queue(place.url, place.queue)
        for entry in chain.from_iterable(large_pages(queue, span.after)):
            if entry.first_lookup_id > span.upto:
                return
            yield entry

    def what_stays(self) -> Iterator[tuple[QueuePlace, int, int, int]]:
        """Count the large messages, the small ones, and those held by a receiver, of each queue."""
        for place in self.places:
            queue = self._managers.raw_queue(place.url, place.queue)
            measured = measure(queue, 0, pieces=1, large=True)
            large = sum(each.messages for each in measured.pieces)
            held = bool(measured.held) + bool(measure(queue, 0, plain=True).held)
            yield place, large, measured.plain, held

    def close(self) -> None:
        """Close the connections."""
        self._managers.close()

    def gone(self, birth: QueueBirth) -> int:
        """The last position that a message had left when `reach` last measured the queue."""
        return self._gone.get(birth, 0)

    def _watch_gone(self, place: QueuePlace, start: Offsets, gone: int) -> None:
        """Tell of a message behind the offset that left the queue since the offset was made.

        A query that has read nothing of a queue yet begins with what is there at its first look.
        """
        after = position_in(start, place.birth)
        first = gone if not has_position(start, place.birth) else gone_in(start, place.birth)
        known = self._gone.get(place.birth, first)
        if gone <= max(after, known):
            self._gone[place.birth] = gone
            return
        sentence = (
            f"a message at position {gone} left queue {place.queue!r} of manager"
            f" {place.manager_id} before the query read it, and the query has read up to position"
            f" {after}"
        )
        tell_gone(sentence, fail=self._options.fail_on_data_loss)
        self._gone[place.birth] = gone

    def _watch_claim(self, place: QueuePlace, held: int) -> None:
        """Warn of a message that a receiver holds for long: nothing behind it can be read."""
        now = time.monotonic()
        position, since = self._claims.get(place.birth, (0, now))
        if not held or position != held:
            since = now
        elif now - since > self._options.claim_timeout_s:
            warn_of_claim(place.queue, held, now - since)
            since = now
        self._claims[place.birth] = held, since


def _halved(is_reached: Callable[[int], tuple[bool, int]]) -> int:
    """The lowest position at which `is_reached` holds.

    It also gives the position of the message it looked at, which is early if it does not hold.
    """
    low, high = 0, 1
    while not (found := is_reached(high))[0]:
        low, high = found[1], 2 * found[1]
    while low < high:
        middle = (low + high) // 2
        reached, position = is_reached(middle)
        if reached:
            high = middle
        else:
            low = position
    return high


def _is_pattern(wanted: str) -> bool:
    return "*" in wanted


def _matching(wanted: str, queues: list[QueueInfo], url: str) -> list[str]:
    """The names that an entry of the option `queue` stands for."""
    if wanted == "deadletter:":
        return [info.name for info in queues if info.name in DEAD_LETTER_QUEUES]
    kind = QueueKind.PRIVATE
    if wanted.startswith("journal:"):
        owner = wanted.removeprefix("journal:")
        kind = QueueKind.JOURNAL if owner else QueueKind.SYSTEM
        wanted = f"{owner};journal" if owner else SYSTEM_JOURNAL
    names = [info.name for info in queues if info.kind is kind]
    if _is_pattern(wanted):
        return [name for name in names if _fits(name, wanted)]
    found = [name for name in names if name.casefold() == wanted.casefold()]
    if not found:
        raise _not_found(wanted, kind, queues, url)
    return found


def _fits(name: str, pattern: str) -> bool:
    """Whether a name fits a pattern; only `*` has a meaning: names may have `?` and `[` in them."""
    parts = (re.escape(each) for each in pattern.casefold().split("*"))
    return re.fullmatch(".*".join(parts), name.casefold()) is not None


def _not_found(wanted: str, kind: QueueKind, queues: list[QueueInfo], url: str) -> QueueNotFound:
    """The refusal of a name that no queue of a kind has; it tells where another kind has it."""
    name = wanted.removesuffix(";journal") if kind is QueueKind.JOURNAL else wanted
    if all(each.name.casefold() != name.casefold() for each in queues):
        return QueueNotFound(f"there is no queue {name!r} at {url}; create it", queue=name)
    if kind is QueueKind.JOURNAL:
        return QueueNotFound(
            f"queue {name!r} at {url} has no journal; only a queue that was created with"
            " journal=True (`dray queue create --journal`) keeps copies of received messages",
            queue=wanted,
        )
    return QueueNotFound(
        f"the queue {name!r} at {url} is not one that Spark reads by name; the option queue takes"
        " private queues, journal:NAME and deadletter:",
        queue=name,
    )


def _worth_a_task(pieces: Iterable[RangePiece]) -> Iterator[RangePiece]:
    """Join pieces until each has enough rows or bytes; the last one may have fewer."""
    messages = size = 0
    joined = None
    for piece in pieces:
        messages += piece.messages
        size += piece.size
        joined = RangePiece(piece.upto, messages, size)
        if messages >= _TASK_ROWS_MIN or size >= _TASK_BYTES_MIN:
            yield joined
            joined, messages, size = None, 0, 0
    if joined is not None:
        yield joined
