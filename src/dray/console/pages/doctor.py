"""The first page: everything that keeps messages from moving, each with what can be done here."""

from __future__ import annotations

from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dray.console.form import read_form
from dray.console.pages.asking import Shared, at, done, link, show
from dray.errors import Misuse
from dray.model.finding import DoctorFinding


class Remedy(NamedTuple):
    """A button beside a finding: to another page, or a form that does something."""

    label: str
    path: str
    fields: tuple[tuple[str, str], ...] = ()


def remedies_of(found: DoctorFinding) -> list[Remedy]:
    """The buttons beside a finding, at least one."""
    queue = found.queue
    resume = (("name", queue), ("act", "resume"), ("back", "/"))
    here = link("/queues/one", name=queue)
    match found.code:
        case "peer-down":
            return [Remedy("Try again now", "/queues/act", resume), _DELIVERIES]
        case "paused":
            return [Remedy("Resume", "/queues/act", resume), _DELIVERIES]
        case "refused":
            return [_DELIVERIES, _LETTERS]
        case "diverged" | "peer-silent":
            return [_DELIVERIES]
        case "dead-letters":
            return [_LETTERS]
        case "poison" if queue.endswith(";poison"):
            back = (("name", queue), ("target", queue.partition(";")[0]))
            return [Remedy("Move them back", "/doctor/back", back), Remedy("Look at them", here)]
        case "idle-transaction" if not queue:
            return [Remedy("Settle it", "/doctor/prepared")]
        case "quota" if not queue:
            return [Remedy("Look at the queues", "/queues?sort=bytes")]
        case _ if queue:
            return [Remedy("Look at the queue", here)]
    return [Remedy("Look again", "/")]


_DELIVERIES: Final = Remedy("Look at the delivery", "/deliveries")
_LETTERS: Final = Remedy("Look at the dead letters", "/deadletters")


async def _doctor(request: Request) -> Response:
    console, manager = await at(request)
    shared = console.kept(Shared)
    findings = await shared.get(manager, "doctor", manager.doctor, 2)
    info = await shared.get(manager, "info", manager.info)
    return show(request, "doctor", findings=findings, remedies_of=remedies_of, info=info, to=link)


async def _back(request: Request) -> Response:
    """Move what a poison queue holds back to its queue."""
    _, manager = await at(request)
    form = await read_form(request)
    count = await manager.move(form.text("name"), form.text("target"))
    return done(request, manager, f"{count:,} moved back to {form.text('target')}.", "/")


async def _prepared(request: Request) -> Response:
    """The prepared transactions, to settle one."""
    console, manager = await at(request)
    if request.method == "POST":
        form = await read_form(request)
        transaction, act = form.text("transaction"), form.text("act")
        if act == "commit":
            await manager.commit_prepared(transaction)
        elif act == "abort":
            await manager.abort_prepared(transaction)
        else:
            raise Misuse("a prepared transaction can be committed or aborted; choose one of them")
        said = "committed" if act == "commit" else "aborted"
        return done(request, manager, f"The transaction {transaction} is {said}.", "/")
    return console.page(
        request, "pages/prepared.html", transactions=await manager.prepared(), to=link
    )


routes: list[BaseRoute] = [
    Route("/", _doctor),
    Route("/doctor/back", _back, methods=["POST"]),
    Route("/doctor/prepared", _prepared, methods=["GET", "POST"]),
]
