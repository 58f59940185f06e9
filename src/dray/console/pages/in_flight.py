"""Large messages in flight, to other queue managers and from them, and how fast they move."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from typing import Final, NamedTuple

from dray.aio import Manager
from dray.errors import AccessDenied, MessageNotFound, ProtocolError, QueueNotFound
from dray.large.split import read_control
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.queued import QueuedMessage, Wholeness

_SEARCHED_MAX: Final = 50_000
"""Messages of a queue that are looked through: 200 GB of one large message."""
_HEADS_MAX: Final = 5
"""Messages at the head of an outgoing queue: those behind them wait for their turn."""
_OUTGOING_MAX: Final = 50
_WINDOW_S: Final = 15.0
"""Looks that a rate is made of: long enough for a calm figure, short enough to see a stop."""
_SPAN_S: Final = 0.2
"""Two looks that are closer tell no rate."""
_FORGOTTEN_S: Final = 60.0


class LargeRow(NamedTuple):
    """One large message in flight. `done` of `total` counts parts that left, or bytes that arrived.

    `info` is that of the outgoing queue which it leaves, None for one that arrives. Its sender may
    not have known the total.
    """

    message: QueuedMessage
    info: QueueInfo | None
    done: int
    total: int | None
    rate: float
    left: float | None


async def in_flight(manager: Manager, paces: Paces, now: float) -> list[LargeRow]:
    """Large messages that leave, then large messages that arrive."""
    infos = await manager.queues()
    outgoing = [each for each in infos if each.kind is QueueKind.OUTGOING and each.message_count]
    found: list[LargeRow] = []
    for info in outgoing[:_OUTGOING_MAX]:
        found += await _leaving(manager, info, paces, now)
    for info in infos:
        if info.large_count and info.message_count <= _SEARCHED_MAX:
            found += await _arriving(manager, info, paces, now)
    return found


async def that_leaves(manager: Manager, outgoing: str, id: str) -> QueuedMessage:
    """The part of a message that an outgoing queue still holds; raises `MessageNotFound`."""
    async with aclosing(manager.queue(outgoing).contents()) as contents:
        async for each in contents:
            if each.id == id:
                return each
    raise MessageNotFound(
        f"nothing of {id} waits in {outgoing!r} any more; look at its destination"
    )


async def _leaving(manager: Manager, info: QueueInfo, paces: Paces, now: float) -> list[LargeRow]:
    heads = []
    try:
        async with aclosing(manager.queue(info.name).contents()) as contents:
            async for each in contents:
                heads.append(each)
                if len(heads) == _HEADS_MAX:
                    break
        info = await manager.queue(info.name).info()
    except (QueueNotFound, AccessDenied):
        return []
    rows = []
    for each in heads:
        if each.parts and each.parts_in_all is not None:
            rate = paces.rate(_key(each), -each.size, now)
            gone = each.parts_in_all - each.parts
            left = each.size / rate if rate else None
            rows.append(LargeRow(each, info, gone, each.parts_in_all, rate, left))
    return rows


async def _arriving(manager: Manager, info: QueueInfo, paces: Paces, now: float) -> list[LargeRow]:
    try:
        async with aclosing(manager.queue(info.name).contents()) as contents:
            found = [each async for each in contents if each.wholeness is Wholeness.IN_FLIGHT]
    except (QueueNotFound, AccessDenied):
        return []
    rows = []
    for each in found:
        rate, total = paces.rate(_key(each), each.size, now), await _announced(manager, each)
        left = (total - each.size) / rate if total is not None and rate else None
        rows.append(LargeRow(each, None, each.size, total, rate, left))
    return rows


async def _announced(manager: Manager, message: QueuedMessage) -> int | None:
    """The size that the header announces; None if its sender did not know it."""
    queue = manager.queue(message.queue, raw=True)
    try:
        header = await queue.peek_by_lookup_id(message.lookup_id)
        size = read_control(bytes(header.body)).size
    except (MessageNotFound, ProtocolError):
        return None
    return None if size < 0 else size


def _key(message: QueuedMessage) -> str:
    return f"{message.queue} {message.id}"


class Paces:
    """Rates of things, from the last looks at how many bytes of each are done."""

    def __init__(self) -> None:
        """Begin without a look."""
        self._looks: dict[str, deque[tuple[float, int]]] = {}

    def rate(self, thing: str, done: int, now: float) -> float:
        """Take in that so many bytes of a thing are done; the bytes a second lately."""
        looks = self._looks.setdefault(thing, deque())
        looks.append((now, done))
        while now - looks[0][0] > _WINDOW_S:
            looks.popleft()
        self._forget(now)
        began, before = looks[0]
        return max(0.0, (done - before) / (now - began)) if now - began > _SPAN_S else 0.0

    async def close(self) -> None:
        """Nothing is open."""

    def _forget(self, now: float) -> None:
        gone = [each for each, looks in self._looks.items() if now - looks[-1][0] > _FORGOTTEN_S]
        for each in gone:
            del self._looks[each]
