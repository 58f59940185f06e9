"""Dead letters: why each is one, and send again, move, drop."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dray.aio import Manager
from dray.client.awaited.moving import retry_listed
from dray.console.console import console_of
from dray.console.form import Form, read_form, whole_number
from dray.console.pages.asking import Shared, ask, at, done, link, show
from dray.console.pages.queues import page_of
from dray.errors import DrayError, MessageNotFound, Misuse
from dray.model.queued import QueuedMessage, by_destination
from dray.model.words import counted, human_size

_PAGE: Final = 100
_PATH: Final = "/deadletters"


async def _letters(request: Request) -> Response:
    console, manager = await at(request)
    letters = await console.kept(Shared).get(manager, "letters", manager.dead_letters)
    page, pages, rows = page_of(letters, request.query_params.get("page", "1"), _PAGE)
    return show(
        request,
        "letters",
        letters=rows,
        count=len(letters),
        size=sum(each.size for each in letters),
        page_number=page,
        pages=pages,
        own_id=(await console.kept(Shared).get(manager, "info", manager.info)).id,
        to=link,
    )


async def _act(request: Request) -> Response:
    """Send dead letters again, move or drop them; a drop is asked for first."""
    _, manager = await at(request)
    form = await read_form(request)
    act, every = form.text("act"), form.text("every") == "yes"
    if act.endswith("-all"):
        act, every = act.removesuffix("-all"), True
    letters = _meant(form, await manager.dead_letters(), every=every)
    to = form.text("to").strip()
    if act == "drop" and form.text("sure") != "yes":
        return _ask_drop(request, letters, every=every)
    if act == "retry":
        return await _retry(request, manager, letters, to)
    if act == "move":
        if not to:
            raise Misuse("a move needs a queue; write its name beside the button")
        return await _move(request, manager, letters, to)
    if act != "drop":
        raise Misuse(f"a dead letter cannot be made to {act!r}; use the buttons of the page")
    count = await manager.drop_dead_letters([each.id for each in letters])
    return done(request, manager, f"{counted(count, 'dead letter')} dropped for good.", _PATH)


def _meant(form: Form, letters: list[QueuedMessage], *, every: bool) -> list[QueuedMessage]:
    """The dead letters that a form means; raises `Misuse`, and `MessageNotFound` if all are gone.

    "All" of a question that was answered are those that it counted: none that came since.
    """
    chosen, asked = set(form.each("id")), form.each("until")
    if not (every or chosen):
        raise Misuse("no dead letter was chosen; mark some, or take all")
    until = {queue: whole_number(last) or 0 for last, _, queue in (e.partition(" ") for e in asked)}
    found = [
        each
        for each in letters
        if (every or each.id in chosen)
        and (not until or each.lookup_id <= until.get(each.queue, 0))
    ]
    if not found:
        raise MessageNotFound(
            "none of these dead letters is there any more: each was sent again, moved or dropped;"
            " look at the dead letters again"
        )
    return found


def _ask_drop(request: Request, letters: list[QueuedMessage], *, every: bool) -> Response:
    size = human_size(sum(each.size for each in letters))
    shown = [f"{each.label or '(no label)'}, {human_size(each.size)}" for each in letters[:10]]
    if len(letters) > len(shown):
        shown.append(f"and {counted(len(letters) - len(shown), 'more dead letter')}")
    fields = [("act", "drop"), ("sure", "yes")]
    if every:
        last: dict[str, int] = {}
        for each in letters:
            last[each.queue] = max(each.lookup_id, last.get(each.queue, 0))
        fields += [("every", "yes"), *(("until", f"{last[queue]} {queue}") for queue in last)]
    else:
        fields += [("id", each.id) for each in letters]
    return ask(
        request,
        title=f"Drop {counted(len(letters), 'dead letter')}, {size}, for good?",
        goes=shown,
        button="Drop for good",
        action=f"{_PATH}/act",
        fields=fields,
        back=_PATH,
    )


async def _retry(
    request: Request, manager: Manager, letters: list[QueuedMessage], to: str
) -> Response:
    """Send them again, each to its queue or all to one; one that cannot be sent stays."""
    sent, refusals = 0, []
    link = manager.queue(letters[0].queue).handle.link
    for goal, group in by_destination(letters, to or None).items():
        try:
            sent += await retry_listed(link, group, to or None)
        except DrayError as error:
            refusals.append(
                f"{counted(len(group), 'dead letter')} for {goal or 'no known queue'}"
                f" stayed: {error}."
            )
    console = console_of(request)
    for each in refusals:
        console.tell(request, each, "bad")
    if not sent and refusals:
        return console.go_to(_PATH)
    return done(request, manager, f"{counted(sent, 'dead letter')} sent again.", _PATH)


async def _move(
    request: Request, manager: Manager, letters: list[QueuedMessage], to: str
) -> Response:
    moved = 0
    for queue in dict.fromkeys(each.queue for each in letters):
        ids = [each.id for each in letters if each.queue == queue]
        moved += await manager.move(queue, to, ids)
    return done(request, manager, f"{counted(moved, 'dead letter')} moved to {to}.", _PATH)


routes: list[BaseRoute] = [
    Route(_PATH, _letters),
    Route(f"{_PATH}/act", _act, methods=["POST"]),
]
