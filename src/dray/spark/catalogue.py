"""The queues that a query reads, as its planner sees them: where they are, how far they reach."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.errors import InvalidConfiguration, QueueNotFound
from dray.model.classes import QueueKind
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.spark.managers import Managers, first_after, list_large, pages
from dray.spark.offsets import Offsets, QueuePlace, Span, check_birth, position_in, with_position

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue
    from dray.spark.options import Options
    from dray.wire.frames import LargeEntry


class Catalogue:
    """Finds queues by name or pattern on all managers, and asks them how far they reach."""

    def __init__(self, options: Options) -> None:
        """Connect to nothing yet."""
        self._options = options
        self._managers = Managers()
        self._places: dict[tuple[str, str], QueuePlace] = {}
        self._manager_ids: set[str] = set()

    @property
    def places(self) -> list[QueuePlace]:
        """All queues, in the order of the options."""
        if not self._places:
            self.refresh()
        return list(self._places.values())

    def refresh(self) -> None:
        """Look again, since queues come and go.

        Raises `QueueNotFound` if no queue has a name, or none at any of the urls fits a pattern.
        """
        found: dict[tuple[str, str], QueuePlace] = {}
        fitting = dict.fromkeys(self._options.queues, False)
        for url in self._options.urls:
            manager = self._managers.at(url)
            manager_id = manager.info().id
            self._manager_ids.add(manager_id)
            born = {
                info.name: info.born for info in manager.queues() if info.kind is QueueKind.PRIVATE
            }
            for wanted in self._options.queues:
                for name in _matching(wanted, list(born), url):
                    found[manager_id, name] = QueuePlace(url, manager_id, name, born[name])
                    fitting[wanted] = True
        for wanted, fits in fitting.items():
            if not fits:
                urls = ", ".join(self._options.urls)
                raise QueueNotFound(
                    f"no queue fits the pattern {wanted!r} at {urls}; create one or mend the option"
                    " queue",
                    queue=wanted,
                )
        self._places = found

    def known(self) -> set[tuple[str, str]]:
        """Manager id and name of every queue."""
        return set(self._places)

    def place(self, span: Span) -> QueuePlace:
        """Where a range is to be read.

        Raises `QueueNotFound` if its queue is gone, `QueueRecreated` if it is another one now.
        """
        if not self._places:
            self.refresh()
        place = self._places.get((span.manager_id, span.queue))
        if place is None:
            raise QueueNotFound(
                f"queue {span.queue!r} of manager {span.manager_id} is at none of the given urls",
                queue=span.queue,
            )
        check_birth(place.birth, span.born)
        return place

    def check_managers(self, start: Offsets) -> None:
        """Raise `InvalidConfiguration` if `start` names a manager that none of the urls has."""
        if not self._places:
            self.refresh()
        for manager_id in start:
            if manager_id not in self._manager_ids:
                urls = ", ".join(self._options.urls)
                raise InvalidConfiguration(
                    f"startingOffsets names the queue manager {manager_id}, and none of the urls"
                    f" ({urls}) leads to it; correct the id or add its url"
                )

    def check_births(self, start: Offsets) -> None:
        """Raise `QueueRecreated` if a queue is another one than the one that `start` tells of."""
        for place in self.places:
            offset = start.get(place.manager_id, {}).get(place.queue)
            if offset is not None:
                check_birth(place.birth, offset["born"])

    def latest(self, start: Offsets) -> Offsets:
        """How far all queues reach."""
        end = start
        for place in self.places:
            upto = self.reach(place, position_in(start, place.birth))
            end = with_position(end, place.birth, upto)
        return end

    def reach(
        self,
        place: QueuePlace,
        after: int,
        *,
        rows_max: int | None = None,
        bytes_max: int | None = None,
        upto: int | None = None,
    ) -> int:
        """How far one queue can be read from a position, within limits and not beyond `upto`.

        A single row is given even if it is over `bytes_max`.
        """
        queue = self._managers.raw_queue(place.url, place.queue)
        if self._options.content == "large":
            return self._reach_large(queue, after, (rows_max, bytes_max, upto))
        return self._reach_messages(queue, after, (rows_max, bytes_max, upto))

    def large_in(self, span: Span) -> Iterator[LargeEntry]:
        """The large messages of a range."""
        place = self.place(span)
        queue = self._managers.raw_queue(place.url, place.queue)
        for entry in _listed(queue, span.after, BATCH_MESSAGES_MAX):
            if entry.first_lookup_id > span.upto:
                return
            yield entry

    def close(self) -> None:
        """Close the connections."""
        self._managers.close()

    def _reach_large(
        self, queue: Queue, after: int, limits: tuple[int | None, int | None, int | None]
    ) -> int:
        rows_max, bytes_max, upto = limits
        reached = after
        rows = size = 0
        page = min(BATCH_MESSAGES_MAX, rows_max or BATCH_MESSAGES_MAX)
        for entry in _listed(queue, after, page):
            rows, size = rows + 1, size + entry.size
            if upto is not None and entry.first_lookup_id > upto:
                break
            if rows_max is not None and rows > rows_max:
                break
            if bytes_max is not None and size > bytes_max and rows > 1:
                break
            reached = entry.first_lookup_id
        return reached

    def _reach_messages(
        self, queue: Queue, after: int, limits: tuple[int | None, int | None, int | None]
    ) -> int:
        rows_max, bytes_max, upto = limits
        first = first_after(queue, after)
        if first is None or (upto is not None and first > upto):
            return after
        last = _last_position(queue, first)
        if upto is not None:
            last = min(last, upto)
        if rows_max is not None:
            last = min(last, first + rows_max - 1)
        return last if bytes_max is None else _within_bytes(queue, after, last, bytes_max)


def _matching(wanted: str, names: list[str], url: str) -> list[str]:
    if any(sign in wanted for sign in "*?["):
        return fnmatch.filter(names, wanted)
    found = [name for name in names if name.casefold() == wanted.casefold()]
    if not found:
        raise QueueNotFound(f"there is no queue {wanted!r} at {url}; create it", queue=wanted)
    return found


def _listed(queue: Queue, after: int, page: int) -> Iterator[LargeEntry]:
    """Everything that can be listed behind a position."""
    while entries := list_large(queue, after, page):
        yield from entries
        after = max(entry.first_lookup_id for entry in entries)
        if len(entries) < page:
            return


def _last_position(queue: Queue, known: int) -> int:
    """The last position of a queue, searched from one that is known: first by leaps, then halving.

    Managers do not tell it, and reading all messages to count them would cost more.
    """
    leap = 1
    while (found := first_after(queue, known + leap)) is not None:
        known, leap = found, leap * 2
    high = known + leap
    while known < high:
        middle = (known + high) // 2
        found = first_after(queue, middle)
        if found is None:
            high = middle
        else:
            known = found
    return known


def _within_bytes(queue: Queue, after: int, last: int, bytes_max: int) -> int:
    """The last position before the bodies are over `bytes_max`; one is given in any case."""
    reached, size = after, 0
    for page in pages(queue, after, last):
        for message in page:
            size += message.body_size
            if size > bytes_max and reached > after:
                return reached
            reached = message.lookup_id or reached
    return last
