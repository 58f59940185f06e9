"""Things that are said at once, then at most once a minute, with a count.

    one of a key                                    is said
    the first, or the first after a quiet minute    at once; so are as many more as `most` allows
    others within the minute                        once when the minute is over, with their count
    held back at the stop                           then, with their count

So a thousand equal things a second cost one line a minute, and the numbers add up to what happened.
Keys belong to groups. No group has more than its share of all keys, so none takes them from the
others; its last ones share a key. If all keys are taken, the last ones share another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dray.daemon.limits import NOTICE_RETRY_S, NOTICE_S, NOTICE_SUBJECTS_MAX, NOTICE_SUBJECTS_SHARE
from dray.daemon.timekeeper import Timekeeper
from dray.model.places import Amounts

Item = TypeVar("Item")


class Repeats(Generic[Item]):
    """Holds back what repeats itself."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Timekeeper,
        say: Callable[[Item, int, float], None],
    ) -> None:
        """Begin with nothing said; `clock` tells the time, `loop` only calls again.

        `say` gets the last item of a key, how many times it stands for, and in how many seconds
        they came: 0 for one that is said at once.
        """
        self._loop = loop
        self._clock = clock
        self._say = say
        self._keys: dict[Hashable, _Repeated[Item]] = {}
        """The one said first stands first."""
        self._of: Amounts[Hashable] = Amounts()
        """The number of them in each group."""
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self,
        key: Hashable,
        item: Item,
        *,
        group: Hashable,
        of_group: tuple[Hashable, Item],
        shared: tuple[Hashable, Item],
        times: int = 1,
        most: int = 1,
    ) -> None:
        """Say an item, or hold it back.

        `of_group` stands in where its group has no place for another key, and `shared` where nobody
        has one.
        """
        now = self._clock.now()
        self._say_what_is_due(now)
        if key not in self._keys and self._of[group] >= self._share:
            key, item = of_group
        if key not in self._keys and len(self._keys) >= NOTICE_SUBJECTS_MAX:
            key, item = shared
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = _Repeated(now, group)
            self._of.add(group, 1)
        if known.said < most:
            known.said += 1
            self._say(item, times, 0.0)
        else:
            known.latest = item
            known.times += times
        self._call_again(now)

    @property
    def _share(self) -> int:
        return max(1, NOTICE_SUBJECTS_MAX // NOTICE_SUBJECTS_SHARE)

    def stop(self) -> None:
        """Say everything that is held back."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.now()
        for each in self._keys.values():
            if each.latest is not None:
                self._say(each.latest, each.times, now - each.since)
        self._keys.clear()
        self._of.clear()

    def _say_what_is_due(self, now: float) -> None:
        """Say what was held back for a minute, and forget each key that was quiet as long."""
        for key, known in list(self._keys.items()):
            if known.since + NOTICE_S > now:
                return
            del self._keys[key]
            if known.latest is not None:
                self._say(known.latest, known.times, NOTICE_S)
                self._keys[key] = _Repeated(now, known.group)
                self._keys[key].said = 1
            else:
                self._of.add(known.group, -1)

    def _call_again(self, now: float) -> None:
        if self._timer is None and self._keys:
            oldest = next(iter(self._keys.values()))
            delay = max(NOTICE_RETRY_S, oldest.since + NOTICE_S - now)
            self._timer = self._loop.call_later(delay, self._minute)

    def _minute(self) -> None:
        self._timer = None
        now = self._clock.now()
        self._say_what_is_due(now)
        self._call_again(now)


class _Repeated(Generic[Item]):
    """Items of one key since the minute began."""

    __slots__ = ("group", "latest", "said", "since", "times")

    def __init__(self, since: float, group: Hashable) -> None:
        self.since, self.group = since, group
        self.said = 0
        self.latest: Item | None = None
        self.times = 0
