"""The queues of the queue manager: list, create, describe, delete."""

from __future__ import annotations

from urllib.parse import quote

import msgspec
from starlette.responses import Response

from dray.console.v1.calls import Call, answered, nothing


class NewQueue(msgspec.Struct, forbid_unknown_fields=True):
    """The properties of a new queue; see `Manager.create_queue`."""

    transactional: bool = True
    quota: int | str | None = None
    journal: bool = False
    journal_quota: int | str | None = None
    label: str = ""
    digest: str | None = None
    exist_ok: bool = False


async def list_all(call: Call) -> Response:
    """All queues that the caller may see."""
    return answered({"queues": await call.caller.manager.queues()})


async def create(call: Call) -> Response:
    """Create a queue."""
    asked = await call.json(NewQueue)
    made = await call.caller.manager.create_queue(
        call.named("queue"), **msgspec.structs.asdict(asked)
    )
    return answered(await made.info(), 201, {"Location": f"/v1/queues/{quote(made.name, safe='')}"})


async def describe(call: Call) -> Response:
    """State of a queue."""
    return answered(await call.caller.manager.queue(call.named("queue")).info())


async def delete(call: Call) -> Response:
    """Delete a queue with all its messages."""
    await call.caller.manager.delete_queue(call.named("queue"))
    return nothing()


async def manager(call: Call) -> Response:
    """State of the queue manager."""
    return answered(await call.caller.manager.info())
