"""Things that callers hold, by caller and oldest first, so that none takes what others need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

_Held = TypeVar("_Held", bound=Hashable)


class Places(Generic[_Held]):
    """Things by the place of the caller that holds them (`Caller.place`)."""

    def __init__(self) -> None:
        self._places: dict[_Held, str] = {}
        self._held: dict[str, dict[_Held, None]] = {}

    def __len__(self) -> int:
        """The number of things that all callers hold."""
        return len(self._places)

    def __contains__(self, held: _Held) -> bool:
        """Whether a caller holds a thing."""
        return held in self._places

    def __iter__(self) -> Iterator[_Held]:
        """All of them, oldest first."""
        return iter(list(self._places))

    def place_of(self, held: _Held) -> str | None:
        """The place of the caller that holds a thing, if one does."""
        return self._places.get(held)

    def count(self, place: str) -> int:
        """The number of things that one caller holds."""
        return len(self._held.get(place, ()))

    def add(self, held: _Held, place: str) -> None:
        """Note that a caller holds one thing more."""
        self._places[held] = place
        self._held.setdefault(place, {})[held] = None

    def discard(self, held: _Held) -> None:
        """Note that a thing is no longer held, if it was."""
        place = self._places.pop(held, None)
        if place is not None:
            del self._held[place][held]
            if not self._held[place]:
                del self._held[place]

    def oldest(self, place: str | None = None) -> _Held | None:
        """The thing that one caller, or any, has held longest."""
        return next(iter(self._places if place is None else self._held.get(place, ())), None)

    def oldest_of_most(self) -> _Held:
        """The oldest thing of the caller that holds the most: who crowds others loses its own."""
        most = max(self._held, key=lambda place: (len(self._held[place]), place))
        return next(iter(self._held[most]))

    def of(self, place: str) -> list[_Held]:
        """The things that one caller holds, oldest first."""
        return list(self._held.get(place, ()))

    def firsts(self) -> Iterator[tuple[str, _Held]]:
        """The place of each caller, and the thing that it has held longest."""
        for place, held in self._held.items():
            yield place, next(iter(held))


class Amounts(Counter[_Held]):
    """The amount that each holder has, of bytes or of anything; one that has none is forgotten."""

    def add(self, holder: _Held, more: int) -> None:
        """Count so many more, or fewer if negative."""
        count = self[holder] + more
        if count:
            self[holder] = count
        else:
            self.pop(holder, None)
