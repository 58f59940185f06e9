"""One message: its properties, a preview, its story, and its body to download or in part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

import dray.aio
from dray.aio import LargeMessage, Manager
from dray.client.awaited.large_message import verified_pieces
from dray.console.attachments import PIXELS_MAX, attachment, is_shown, picture_type
from dray.console.console import CONSOLE, console_of, visitor_of
from dray.console.form import whole_number
from dray.console.http.bodies import BodyAnswer, Piece
from dray.console.pages.asking import at, link
from dray.console.pages.previews import (
    PARQUET,
    PREVIEW_BYTES_MAX,
    Preview,
    parquet_of,
    preview_of,
)
from dray.console.pages.story import WholeStory, story_of
from dray.errors import LargeMessageError, MessageNotFound
from dray.model.classes import Acknowledge, MessageClass
from dray.model.limits import KIB
from dray.model.message import Message
from dray.model.queued import QueuedMessage, Wholeness
from dray.model.words import counted, human_size, time_text

_SHOWN_HEX: Final = 256
_ARRIVES: Final = (
    "not all parts of this large message have arrived, so its body cannot be looked at; try again"
    " later"
)
_HELD: Final = "a receiver holds this message now, so its body cannot be looked at; try again later"


async def find(manager: Manager, queue: str, position: int) -> QueuedMessage:
    """The message, or the large message, at a position; raises `MessageNotFound`."""
    async with aclosing(manager.queue(queue).contents(position - 1)) as contents:
        async for each in contents:
            if each.lookup_id == position:
                return each
            break
    raise MessageNotFound(
        f"no message is at position {position} of {queue!r} any more; look at the queue again"
    )


async def _asked(request: Request) -> tuple[Manager, QueuedMessage]:
    _, manager = await at(request)
    query = request.query_params
    number = whole_number(query.get("at", "")) or 0
    return manager, await find(manager, query.get("queue", ""), number)


async def _message(request: Request) -> Response:
    manager, found = await _asked(request)
    said, seen = "", Preview("empty")
    facts = _facts(found)
    try:
        if not found.parts:
            message = await manager.queue(found.queue, raw=True).peek_by_lookup_id(found.lookup_id)
            facts |= _more(message)
        seen = await preview(manager, found, console_of(request).kept(ParquetTurns))
    except MessageNotFound:
        said = _ARRIVES if found.wholeness is Wholeness.IN_FLIGHT else _HELD
    except LargeMessageError as error:
        said = str(error)
    where = {"queue": found.queue, "at": found.lookup_id}
    return console_of(request).page(
        request,
        "pages/message.html",
        found=found,
        facts=facts,
        preview=seen,
        said_of_body=said,
        preview_max=PREVIEW_BYTES_MAX,
        pixels_max=PIXELS_MAX,
        picture=link("/queues/message/picture", **where),
        body=link("/queues/message/body", **where),
        story=link("/story", id=found.id),
        to=link,
    )


def _facts(found: QueuedMessage) -> dict[str, str]:
    facts = {
        "Id": found.id,
        "Label": found.label,
        "Size": _size(found.size),
        "Position": str(found.lookup_id),
        "Parts": f"{found.parts:,}, {found.wholeness}" if found.parts else "",
        "Why it is a dead letter": found.reason,
        "Sent": time_text(found.sent_time),
        "Arrived": time_text(found.arrived_time),
        "Sent to": found.destination or "",
        "From queue manager": found.source,
        "Correlation id": found.correlation_id or "",
        "Transaction": found.transaction_id or "",
        "Class": found.message_class.name if found.message_class != MessageClass.NORMAL else "",
        "Application's number": str(found.app_specific) if found.app_specific else "",
        "Priority": "" if found.transaction_id else str(found.priority),
    }
    return {name: value for name, value in facts.items() if value}


def _more(message: Message) -> dict[str, str]:
    """The properties of a plain message that a list of a queue does not have."""
    asked = message.acknowledge
    facts = {
        "Extension": _hex(message.extension),
        "Time to reach its queue": _seconds(message.time_to_reach_queue),
        "Time to be received": _seconds(message.time_to_be_received),
        "Administration queue": message.administration_queue or "",
        "Acknowledgments": str(Acknowledge(asked).name) if asked else "",
        "Response queue": message.response_queue or "",
        "Given back": counted(message.abort_count, "time") if message.abort_count else "",
        "Moved": counted(message.move_count, "time") if message.move_count else "",
    }
    return {name: value for name, value in facts.items() if value}


def _size(size: int) -> str:
    exactly = counted(size, "byte")
    return exactly if size < KIB else f"{human_size(size)} ({exactly})"


def _hex(data: bytes) -> str:
    shown = bytes(data[:_SHOWN_HEX]).hex(" ")
    return shown if len(data) <= _SHOWN_HEX else f"{shown} … ({len(data):,} bytes)"


def _seconds(span: float | None) -> str:
    return "" if span is None else f"{span:g} s"


async def _picture(request: Request) -> Response:
    """A whole picture. The type is that of its bytes, and never its sender's."""
    manager, found = await _asked(request)
    head = await head_of(manager, found)
    kind = picture_type(head[:16])
    if not kind or len(head) < found.size or not is_shown(head):
        raise MessageNotFound(
            f"the body of this message is no picture of up to {human_size(PREVIEW_BYTES_MAX)};"
            " download it instead"
        )
    return Response(head, media_type=kind)


async def _body(request: Request) -> Response:
    """The whole body as a file to save, piece by piece."""
    manager, found = await _asked(request)
    headers = attachment(found.label or f"message-{found.lookup_id}")
    headers["Content-Length"] = str(found.size)
    return BodyAnswer(HTTPStatus.OK, headers, _pieces(request, manager, found))


async def _pieces(
    request: Request, manager: Manager, found: QueuedMessage
) -> AsyncGenerator[Piece, None]:
    with console_of(request).body(request):
        async with opened(manager, found) as body, aclosing(body.pieces()) as pieces:
            async for piece in pieces:
                yield piece


async def _story(request: Request) -> Response:
    """All that running queue managers can tell of one message."""
    console, manager = await at(request)
    wanted = request.query_params.get("id", "").strip()
    # The console's own proof opens the other ones: other visitors have no part in it.
    others = console.others if visitor_of(request).caller == CONSOLE else {}
    story = await story_of(manager, others, wanted) if wanted else WholeStory([], [], [])
    return console.page(request, "pages/story.html", wanted=wanted, story=story, to=link)


routes: list[BaseRoute] = [
    Route("/queues/message", _message),
    Route("/queues/message/picture", _picture),
    Route("/queues/message/body", _body),
    Route("/story", _story),
]


async def head_of(manager: Manager, found: QueuedMessage) -> bytes:
    """The first bytes of a body."""
    async with opened(manager, found) as body:
        return await body.range(0, PREVIEW_BYTES_MAX)


async def preview(manager: Manager, found: QueuedMessage, turns: ParquetTurns) -> Preview:
    """A preview of the body of a message."""
    async with opened(manager, found) as body:
        head = await body.range(0, PREVIEW_BYTES_MAX)
        if head.startswith(PARQUET) and (rows := await turns.rows(body)) is not None:
            return rows
        return preview_of(head, body.size, found.label)


@asynccontextmanager
async def opened(manager: Manager, found: QueuedMessage) -> AsyncIterator[_OpenBody]:
    """The body of a message, which stays in its queue.

    Raises `MessageNotFound` if a receiver holds it, or if it has not arrived whole.
    """
    if found.wholeness is Wholeness.IN_FLIGHT:
        raise MessageNotFound(_ARRIVES)
    queue = manager.queue(found.queue, raw=True)
    if not found.parts:
        message = await queue.peek_by_lookup_id(found.lookup_id)
        yield _PlainBody(bytes(message.body))
        return
    async with dray.aio.LargeMessageQueue(queue).peek_by_id(found.id) as large:
        yield _LargeBody(large)


class ParquetTurns:
    """Previews of Parquet files, one after another: each has a process of its own."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def rows(self, body: _OpenBody) -> Preview | None:
        """The first rows of a body; None if it has none, or they need too much."""
        loop = asyncio.get_running_loop()

        def given(offset: int, length: int) -> bytes:
            return asyncio.run_coroutine_threadsafe(body.range(offset, length), loop).result()

        async with self._turn:
            return await asyncio.to_thread(parquet_of, body.size, given)

    async def close(self) -> None:
        """Nothing is open."""


class _PlainBody:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self.size = len(body)

    async def range(self, offset: int, length: int) -> bytes:
        return self._body[offset : offset + length]

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        yield self._body


class _LargeBody:
    def __init__(self, message: LargeMessage) -> None:
        self._message = message
        self.size = message.size

    async def range(self, offset: int, length: int) -> bytes:
        return await self._message.read_range(offset, min(length, max(0, self.size - offset)))

    def pieces(self) -> AsyncGenerator[Piece, None]:
        return verified_pieces(self._message)


_OpenBody = _PlainBody | _LargeBody
"""A body that can be read by range, or from its beginning to its end."""
