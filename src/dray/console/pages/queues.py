"""Queues: the list of all, one with its messages, and everything that is done to a queue."""

from __future__ import annotations

import time
from contextlib import aclosing
from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dray.aio import Manager
from dray.console.form import Form, read_form, whole_number
from dray.console.pages.asking import Shared, ask, at, done, link, show
from dray.console.pages.rates import HEIGHT, WIDTH, Chart, QueueRates
from dray.errors import AccessDenied, DrayError, Misuse
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.queued import QueuedMessage, QueuedPart
from dray.model.words import counted, human_size, size_in_bytes

_PAGE_QUEUES: Final = 100
_PAGE_MESSAGES: Final = 100
_FRESH_S: Final = 2.0
"""The page asks every three seconds, and all browsers together ask once in two."""
_PARTS_MAX: Final = 200
"""Parts that a row shows: a large message may have 25,000."""
_CALM: Final = frozenset({"active", "connected", "inactive"})
_BUTTONS_ON: Final = frozenset({"/", "/deliveries", "/transfers"})
"""Other pages with buttons of this one."""
_SORTS: Final = {
    "name": lambda row: row.info.name,
    "messages": lambda row: -row.info.message_count,
    "bytes": lambda row: -row.info.byte_count,
    "oldest": lambda row: row.info.oldest_time or float("inf"),
    "in": lambda row: -row.chart.now.arriving,
    "out": lambda row: -row.chart.now.leaving,
}


class QueueRow(NamedTuple):
    """One queue of the list."""

    info: QueueInfo
    age: float | None
    chart: Chart
    is_calm: bool


async def _queues(request: Request) -> Response:
    console, manager = await at(request)
    rates = console.kept(QueueRates)
    rates.begin(console)
    infos = await console.kept(Shared).get(manager, "queues", manager.queues, _FRESH_S)
    query = request.query_params
    wanted, every = query.get("find", "").strip(), query.get("all") == "yes"
    sort = query.get("sort", "name")
    chosen = [
        each
        for each in infos
        if wanted.lower() in f"{each.name} {each.label}".lower() and (every or _matters(each))
    ]
    now = time.time()
    rows = [QueueRow(each, _age(each, now), rates.chart(""), _is_calm(each)) for each in chosen]
    if sort in {"in", "out"}:
        rows = [each._replace(chart=Chart("", "", rates.now(each.info.name))) for each in rows]
    rows.sort(key=_SORTS.get(sort, _SORTS["name"]))
    page, pages, rows = page_of(rows, query.get("page", "1"), _PAGE_QUEUES)
    # Charts are drawn for the rows that are shown only.
    rows = [each._replace(chart=rates.chart(each.info.name)) for each in rows]
    return show(
        request,
        "queues",
        rows=rows,
        count=len(chosen),
        total=len(infos),
        find=wanted,
        every=every,
        sort=sort,
        sorts=list(_SORTS),
        page_number=page,
        pages=pages,
        link=lambda **given: link(
            "/queues",
            **({"find": wanted, "all": "yes" if every else "", "sort": sort} | given),
        ),
        to=link,
        width=WIDTH,
        height=HEIGHT,
    )


def page_of(rows: list, wanted: str, size: int) -> tuple[int, int, list]:  # type: ignore[type-arg]
    """The number of a page, the number of pages, and the rows of that page."""
    pages = max(1, -(-len(rows) // size))
    number = min(max(1, whole_number(wanted) or 1), pages)
    return number, pages, rows[(number - 1) * size : number * size]


def _matters(info: QueueInfo) -> bool:
    """Whether a list shows a queue without being asked for all."""
    if info.kind in (QueueKind.SYSTEM, QueueKind.JOURNAL):
        return False
    return info.kind is not QueueKind.OUTGOING or bool(info.message_count) or not _is_calm(info)


def _is_calm(info: QueueInfo) -> bool:
    return info.state in _CALM


def _age(info: QueueInfo, now: float) -> float | None:
    return None if info.oldest_time is None else max(0.0, now - info.oldest_time)


async def _queue(request: Request) -> Response:
    """One queue and a page of its messages; a large message is one, and shows its parts."""
    console, manager = await at(request)
    name = request.query_params.get("name", "")
    rates = console.kept(QueueRates)
    rates.begin(console)
    queue = manager.queue(name)
    info = await queue.info()
    after = whole_number(request.query_params.get("after", "")) or 0
    opened = whole_number(request.query_params.get("open", "")) or 0
    hidden, found, parts = "", [], []
    try:
        found = await _messages(manager, info.name, after)
        parts = await _parts(manager, info.name, opened)
    except AccessDenied as error:
        # A caller that may not look at messages sees the queue, and may have rights to act on it.
        hidden = str(error)
    more = len(found) > _PAGE_MESSAGES
    return show(
        request,
        "queue",
        info=info,
        age=_age(info, time.time()),
        is_calm=_is_calm(info),
        chart=rates.chart(info.name),
        messages=found[:_PAGE_MESSAGES],
        after=after,
        next_after=found[_PAGE_MESSAGES - 1].lookup_id if more else 0,
        opened=opened,
        parts=parts,
        hidden=hidden,
        parts_max=_PARTS_MAX,
        is_own=info.kind in (QueueKind.PRIVATE, QueueKind.SUB),
        is_outgoing=info.kind is QueueKind.OUTGOING,
        to=link,
        width=WIDTH,
        height=HEIGHT,
    )


async def _messages(manager: Manager, name: str, after: int) -> list[QueuedMessage]:
    found = []
    async with aclosing(manager.queue(name).contents(after)) as contents:
        async for each in contents:
            found.append(each)
            if len(found) > _PAGE_MESSAGES:
                break
    return found


async def _parts(manager: Manager, name: str, opened: int) -> list[QueuedPart]:
    found: list[QueuedPart] = []
    if not opened:
        return found
    async with aclosing(manager.queue(name, raw=True).parts(opened)) as parts:
        async for each in parts:
            found.append(each)
            if len(found) > _PARTS_MAX:
                break
    return found


async def _new(request: Request) -> Response:
    """The form for a new queue; a wrong one is shown again with the reason."""
    console, manager = await at(request)
    form, wrong = Form({}), ""
    if request.method == "POST":
        form = await read_form(request)
        try:
            queue = await manager.create_queue(
                form.text("name").strip(),
                transactional=form.text("transactional") == "yes",
                quota=_limit(form.text("quota")),
                journal=form.text("journal") == "yes",
                journal_quota=_limit(form.text("journal_quota")),
                label=form.text("label"),
            )
        except (DrayError, ValueError) as error:
            wrong = str(error)
        else:
            return done(
                request, manager, f"{queue.name} was created.", link("/queues/one", name=queue.name)
            )
    status = HTTPStatus.BAD_REQUEST if wrong else HTTPStatus.OK
    return console.page(
        request,
        "pages/new_queue.html",
        status=status,
        wrong=wrong,
        given=form.text,
        is_first=request.method != "POST",
    )


def _limit(text: str) -> int | None:
    """A size as somebody writes it; nothing, or "none", is no limit. Raises `Misuse`."""
    written = text.strip()
    return None if written.lower() in ("", "none", "no limit") else size_in_bytes(written)


async def _ask(request: Request) -> Response:
    """Ask before a queue is purged or deleted."""
    _, manager = await at(request)
    name, act = request.query_params.get("name", ""), request.query_params.get("act", "")
    if act not in {"purge", "delete"}:
        raise Misuse("a queue can be purged or deleted here; choose one of them at the queue")
    info = await manager.queue(name).info()
    goes = [f"{counted(info.message_count)}, {human_size(info.byte_count)}"]
    if act == "delete":
        goes = [f"the queue {info.name} with all that is in it", *goes]
        if info.journal_count:
            size = human_size(info.journal_bytes)
            goes.append(f"{counted(info.journal_count)} of its journal, {size}")
    return ask(
        request,
        title=f"{act.capitalize()} {info.name}?",
        goes=goes,
        button=act.capitalize(),
        action="/queues/act",
        fields=[
            ("name", info.name),
            ("act", act),
            ("born", str(info.born)),
            ("before", str(info.next_position)),
        ],
        back=link("/queues/one", name=info.name),
    )


async def _act(request: Request) -> Response:
    """Do something to a queue."""
    _, manager = await at(request)
    form = await read_form(request)
    name, act = form.text("name"), form.text("act")
    # The queue that a question was about, and not one that has its name by now.
    born = whole_number(form.text("born"))
    back = link("/queues/one", name=name)
    match act:
        case "purge":
            # The messages that it counted, and none that came since.
            before = whole_number(form.text("before")) or 0
            count = await manager.queue(name).purge(born=born, before=before)
            said = f"{counted(count)} left {name} for good."
        case "delete":
            await manager.delete_queue(name, born)
            said, back = f"{name} was deleted.", "/queues"
        case "pause":
            await manager.pause(name)
            said = f"{name} is paused; its messages wait."
        case "resume":
            await manager.resume(name)
            said = f"{name} delivers again."
        case "quota":
            await manager.set_quota(
                name,
                _limit(form.text("quota")),
                journal_quota=_limit(form.text("journal_quota")),
            )
            said = f"The quotas of {name} are set."
        case "move":
            ids, target = form.each("id"), form.text("to").strip()
            if not ids:
                raise Misuse("no message was chosen; mark the ones to move")
            count = await manager.move(name, target, ids)
            said = f"{counted(count)} moved from {name} to {target}."
        case _:
            raise Misuse(f"a queue cannot be made to {act!r}; use the buttons of its page")
    return done(request, manager, said, _back_of(form) or back)


def _back_of(form: Form) -> str:
    """The page that a button stood on; never another site."""
    return form.text("back") if form.text("back") in _BUTTONS_ON else ""


routes: list[BaseRoute] = [
    Route("/queues", _queues),
    Route("/queues/one", _queue),
    Route("/queues/new", _new, methods=["GET", "POST"]),
    Route("/queues/ask", _ask),
    Route("/queues/act", _act, methods=["POST"]),
]
