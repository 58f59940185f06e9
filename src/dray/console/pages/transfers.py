"""Transfers in flight: files between two programs, uploads, and large messages that arrive."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import aclosing
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

import dray.aio
from dray.aio import Incoming, Manager, Offer
from dray.client.files.upload_state import UnfinishedUpload
from dray.console.form import read_form
from dray.console.pages.asking import Shared, ask, at, done, link, show
from dray.errors import (
    AccessDenied,
    DrayError,
    MessageNotFound,
    Misuse,
    ProtocolError,
    QueueNotFound,
)
from dray.large.split import read_control
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.queued import QueuedMessage, Wholeness
from dray.model.transfer import TransferStatus
from dray.model.words import counted, human_size

_PATH: Final = "/transfers"
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


class UploadRow(NamedTuple):
    """An unfinished upload; the rate is that of the last seconds."""

    upload: UnfinishedUpload
    rate: float
    left: float | None


class ResumedTransfers:
    """Transfers that no other program ran, and that go on in the console."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, found: Offer | Incoming) -> None:
        """Go on until its end."""
        task = asyncio.create_task(_to_its_end(found))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop; all of them can be resumed."""
        for each in list(self._tasks):
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _to_its_end(found: Offer | Incoming) -> None:
    try:
        if isinstance(found, dray.aio.Offer):
            await found.wait()
        else:
            assert found.path is not None
            await found.save_to(found.path)
    except DrayError:
        # Its state says how it ended, or that it can be resumed.
        return


async def _transfers(request: Request) -> Response:
    console, manager = await at(request)
    shared = console.kept(Shared)
    transfers = await shared.get(manager, "transfers", manager.unfinished_transfers, 0.5)
    paces = console.kept(Paces)
    uploads = await shared.get(manager, "uploads", lambda: _uploads(manager, paces), 0.5)
    large = await shared.get(manager, "large", lambda: in_flight(manager, paces, time.time()), 1)
    return show(
        request,
        "transfers",
        transfers=[(each, _left(each)) for each in transfers],
        uploads=uploads,
        large=large,
        to=link,
    )


def _left(status: TransferStatus) -> float | None:
    return status.bytes_left / status.rate_bytes_s if status.rate_bytes_s else None


async def _uploads(manager: Manager, paces: Paces) -> list[UploadRow]:
    now, rows = time.time(), []
    for each in await manager.unfinished_uploads():
        rate = paces.rate(each.sequence_id, each.bytes_done, now)
        total = each.bytes_total
        left = (total - each.bytes_done) / rate if rate and total is not None else None
        rows.append(UploadRow(each, rate, left))
    return rows


async def _ask(request: Request) -> Response:
    """Ask before a transfer or a large message is cancelled, or an upload is dropped."""
    _, manager = await at(request)
    query = request.query_params
    id, queue = query.get("id", ""), query.get("queue", "")
    if outgoing := query.get("outgoing", ""):
        return await _ask_large(request, manager, outgoing, id)
    if queue:
        goes = [f"what has arrived of the upload {id} to {queue}"]
    else:
        chosen = [each for each in await manager.unfinished_transfers() if each.transfer_id == id]
        if not chosen:
            raise Misuse(f"there is no unfinished transfer {id!r} any more; look at the others")
        goes = [f"{each.label}: {human_size(each.bytes_done)} that have arrived" for each in chosen]
    return ask(
        request,
        title="Drop the upload?" if queue else "Cancel the transfer at both ends?",
        goes=goes,
        button="Drop" if queue else "Cancel the transfer",
        action=f"{_PATH}/act",
        fields=[("id", id), ("queue", queue), ("act", "drop" if queue else "cancel")],
        back=_PATH,
    )


async def _ask_large(request: Request, manager: Manager, outgoing: str, id: str) -> Response:
    found = await that_leaves(manager, outgoing, id)
    goes = [
        f"{counted(found.parts, 'part')} that have not left, {human_size(found.size)}",
        "parts that have arrived or are on the line have a hole then, and their receiver is told",
    ]
    return ask(
        request,
        title=f"Cancel {found.label or found.id}?",
        goes=goes,
        button="Cancel the message",
        action=f"{_PATH}/act",
        fields=[("id", id), ("outgoing", outgoing), ("act", "cancel-message")],
        back=_PATH,
    )


async def _act(request: Request) -> Response:
    console, manager = await at(request)
    form = await read_form(request)
    id, act = form.text("id"), form.text("act")
    match act:
        case "suspend":
            running = await manager.running_transfer(id)
            if running is None:
                raise Misuse("no program runs this transfer now; it waits until it is resumed")
            await running.suspend()
            said = "suspended"
        case "resume":
            await _resume(manager, id, console.kept(ResumedTransfers))
            said = "resumed"
        case "cancel":
            await manager.cancel_transfer(id)
            said = "cancelled"
        case "cancel-message":
            outgoing = form.text("outgoing")
            found = await that_leaves(manager, outgoing, id)
            count = await manager.queue(outgoing).purge(found)
            said = f"cancelled: {counted(count, 'part')} left {outgoing} for good"
            if (await manager.queue(outgoing).info()).state == "on hold":
                said += "; resume it Between managers, so that the destination hears of that"
        case "drop":
            queue = manager.queue(form.text("queue"))
            await dray.aio.LargeMessageQueue(queue).drop_unfinished(id)
            said = "dropped"
        case _:
            raise Misuse(f"a transfer cannot be made to {act!r}; use the buttons of the page")
    return done(request, manager, f"{id} is {said}.", _PATH)


async def _resume(manager: Manager, id: str, resumed: ResumedTransfers) -> None:
    """Resume it where it runs, else here."""
    running = await manager.running_transfer(id)
    if running is not None:
        await running.resume()
        return
    found = await manager.resume_transfer(id)
    if not isinstance(found, dray.aio.Offer) and found.path is None:
        await found.close()
        raise Misuse(
            "this file has no target yet; run `dray transfer resume` in the directory in which you"
            " want it"
        )
    resumed.run(found)


routes: list[BaseRoute] = [
    Route(_PATH, _transfers),
    Route(f"{_PATH}/ask", _ask),
    Route(f"{_PATH}/act", _act, methods=["POST"]),
]


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
