"""Between managers: each outgoing queue, what it waits for, and the history of its connection."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dray.aio import Manager
from dray.console.form import read_form
from dray.console.pages.asking import Shared, ask, at, done, link, show
from dray.errors import AccessDenied, Misuse, QueueNotFound
from dray.model.classes import QueueKind
from dray.model.queue import PeerInfo, QueueInfo
from dray.model.words import counted, human_size

_PATH: Final = "/deliveries"
_HAPPENS: Final = "This happens, and nothing takes it back:"
_SHOWN_MAX: Final = 200
"""Outgoing queues of a page; those that hold messages come first."""


class Delivery(NamedTuple):
    """One outgoing queue, with the sentences of the doctor about it."""

    info: QueueInfo
    findings: list[str]


async def _deliveries(request: Request) -> Response:
    console, manager = await at(request)
    shared = console.kept(Shared)
    found = await shared.get(manager, "deliveries", lambda: _look(manager))
    return show(request, "deliveries", deliveries=found[0], peers=found[1], to=link)


async def _look(manager: Manager) -> tuple[list[Delivery], list[PeerInfo]]:
    outgoing = [each for each in await manager.queues() if each.kind is QueueKind.OUTGOING]
    outgoing.sort(key=lambda each: (-each.message_count, each.name))
    sentences: dict[str, list[str]] = {}
    for finding in await manager.doctor() if outgoing else []:
        sentences.setdefault(finding.queue, []).append(finding.sentence)
    found = []
    for each in outgoing[:_SHOWN_MAX]:
        try:
            info = await manager.queue(each.name).info()
        except QueueNotFound:
            continue
        found.append(Delivery(info, sentences.get(each.name, [])))
    try:
        return found, await manager.peers()
    except AccessDenied:
        return found, []


async def _ask(request: Request) -> Response:
    """Ask before a diverged queue is resolved, or another manager is accepted."""
    _, manager = await at(request)
    query = request.query_params
    name, act = query.get("name", ""), query.get("act", "")
    if act in ("accept-peer", "forget-peer"):
        return _ask_peer(request, name, act)
    if act not in ("accept", "discard"):
        raise Misuse("a diverged queue can be accepted or discarded; choose one of them")
    info = await manager.queue(name).info()
    held = f"{counted(info.message_count)}, {human_size(info.byte_count)}"
    goes = (
        f"{held}: all become dead letters at this queue manager"
        if act == "discard"
        else f"{held}: all are delivered, and some may arrive twice"
    )
    return ask(
        request,
        title=f"{act.capitalize()} what {info.name} holds?",
        goes=[goes],
        button=act.capitalize(),
        action=f"{_PATH}/act",
        fields=[("name", info.name), ("act", act)],
        back=_PATH,
        lead=_HAPPENS,
    )


def _ask_peer(request: Request, address: str, act: str) -> Response:
    accepts = act == "accept-peer"
    goes = "the queue manager that answers there now gets the messages of the known one"
    if not accepts:
        goes = "the next queue manager that answers there becomes the known one, whichever it is"
    return ask(
        request,
        title=f"{'Accept another' if accepts else 'Forget the'} queue manager at {address}?",
        goes=[goes],
        button="Accept" if accepts else "Forget",
        action=f"{_PATH}/act",
        fields=[("name", address), ("act", act)],
        back=_PATH,
        lead=_HAPPENS,
    )


async def _act(request: Request) -> Response:
    _, manager = await at(request)
    form = await read_form(request)
    name, act = form.text("name"), form.text("act")
    match act:
        case "accept":
            said = f"{counted(await manager.accept_outgoing(name))} of {name} are delivered."
        case "discard":
            count = await manager.discard_outgoing(name)
            said = f"{counted(count)} of {name} became dead letters."
        case "accept-peer":
            await manager.accept_peer(name)
            said = f"The queue manager that answers at {name} is accepted."
        case "forget-peer":
            await manager.forget_peer(name)
            said = f"The queue manager at {name} is forgotten."
        case _:
            raise Misuse(f"a delivery cannot be made to {act!r}; use the buttons of the page")
    return done(request, manager, said, _PATH)


routes: list[BaseRoute] = [
    Route(_PATH, _deliveries),
    Route(f"{_PATH}/ask", _ask),
    Route(f"{_PATH}/act", _act, methods=["POST"]),
]
