"""The page of the sample: its handlers, and what each answer shows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from dray.console.attachments import attachment
from dray.console.console import FRAGMENT, Console, capitalized, console_of, visitor_of
from dray.console.form import read_form, whole_number
from dray.console.http.bodies import BodyAnswer, Piece, RequestBody
from dray.console.sample import queues, received, sending
from dray.console.sample.received import ReceivedFile, ReceivedFiles
from dray.console.sample.sending import FormWithFile
from dray.console.statuses import status_of
from dray.errors import DrayError, Misuse
from dray.model.limits import FRAGMENT_BYTES_MAX

_DRAINED_BYTES_MAX: Final = 64 << 20
"""More of a file that was refused is not worth its time on the network."""


async def _page(request: Request) -> Response:
    console = console_of(request)
    manager = await console.manager(request)
    if not console.read_only:
        await queues.make_missing(manager)
    held = None
    if name := request.query_params.get("received"):
        held = console.kept(ReceivedFiles).find(visitor_of(request), name)
    return console.page(
        request,
        "sample/page.html",
        column=await queues.column(manager),
        queue=queues.QUEUE,
        fragment_size=sending.FRAGMENT_SIZE,
        largest=FRAGMENT_BYTES_MAX,
        wrong_size=sending.WRONG_FRAGMENT_SIZE,
        held=held,
    )


async def _queue(request: Request) -> Response:
    console = console_of(request)
    column = await queues.column(await console.manager(request))
    return console.page(request, "sample/queue.html", column=column)


async def _send(request: Request) -> Response:
    """Send a file that is the body of the request, or that stands in a form."""
    console = console_of(request)
    kind = request.path_params["kind"]
    if kind not in {sending.PLAIN, sending.LARGE}:
        return console.error(request, HTTPStatus.NOT_FOUND, "there is no such way to send")
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(console.body(request))
            file, written = await _file_of(request, stack)
            try:
                return await _sent(request, kind, file, written)
            except DrayError as error:
                await _drain(file)
                return _failed(request, error)
    except DrayError as error:
        return _failed(request, error)


async def _sent(request: Request, kind: str, file: sending.FileToSend, written: str) -> Response:
    console = console_of(request)
    manager = await console.manager(request)
    if kind == sending.PLAIN:
        sent = await sending.send_plain(manager, file)
    else:
        size = sending.read_fragment_size(written)
        if size is None:
            await _drain(file)
            return _refused_size(request)
        sent = await sending.send_large(manager, file, size)
    if FRAGMENT in request.headers:
        return console.page(request, "sample/sent.html", sent=sent)
    how = f"as a large message of {sent.parts} parts" if sent.parts else "as a plain message"
    console.tell(request, f"{sent.label} was sent {how}.")
    return console.go_to("/sample")


async def _file_of(request: Request, stack: AsyncExitStack) -> tuple[sending.FileToSend, str]:
    """The file of a request, and the fragment size that was written."""
    body = RequestBody(request)
    if request.method == "POST":
        read = await stack.enter_async_context(aclosing(aiter(body)))
        form = FormWithFile(request.headers.get("content-type", ""), read)
        chunks = await stack.enter_async_context(aclosing(await form.file()))
        written = form.fields.get("fragment_size", str(sending.FRAGMENT_SIZE))
        return sending.FileToSend(form.file_name, None, chunks), written
    query = request.query_params
    said = query.get("size") or request.headers.get("content-length") or ""
    size = whole_number(said)
    written = query.get("fragment_size", str(sending.FRAGMENT_SIZE))
    return sending.FileToSend(query.get("label", "file"), size, body), written


async def _drain(file: sending.FileToSend) -> None:
    """Read on, or the browser would see a broken connection in place of the reason."""
    left = _DRAINED_BYTES_MAX
    async for chunk in file.chunks:
        left -= len(chunk)
        if left < 0:
            break


def _refused_size(request: Request) -> Response:
    console = console_of(request)
    if FRAGMENT in request.headers:
        return console.page(
            request,
            "sample/wrong_size.html",
            status=HTTPStatus.BAD_REQUEST,
            sentence=sending.WRONG_FRAGMENT_SIZE,
        )
    console.tell(request, f"Nothing was sent: {sending.WRONG_FRAGMENT_SIZE}.", "bad")
    return console.go_to("/sample")


def _failed(request: Request, error: DrayError) -> Response:
    """Say at the sample's page why something did not happen."""
    console = console_of(request)
    if FRAGMENT in request.headers:
        return console.error(request, status_of(error), str(error), error.code)
    console.tell(request, f"{capitalized(str(error))}.", "bad")
    return console.go_to("/sample")


async def _receive(request: Request) -> Response:
    console = console_of(request)
    form = await read_form(request)
    files = console.kept(ReceivedFiles)
    try:
        files.check_room()
        manager = await console.manager(request)
        part = form.text("drop")
        if part:
            await received.drop(manager, _dropping(part, form.text("number", "1")))
        found = await received.receive(manager, visitor_of(request))
    except DrayError as error:
        return _failed(request, error)
    if isinstance(found, received.HoleFound):
        return _hole(request, console, found)
    files.add(found)
    if FRAGMENT in request.headers:
        return console.page(request, "sample/receiving.html", held=found)
    return console.go_to(f"/sample?received={found.id}")


def _dropping(part: str, number: str) -> received.Dropping:
    if part not in received.PARTS:
        raise Misuse("choose the part to drop: header, fragment or trailer")
    if part != received.FRAGMENT:
        return received.Dropping(part)
    if (chosen := whole_number(number)) is None:
        raise Misuse("write the number of the fragment to drop, from 1 on")
    return received.Dropping(part, chosen)


def _hole(request: Request, console: Console, found: received.HoleFound) -> Response:
    # The browser's own form gets the box as a page, so nothing of it is lost in a redirect.
    part = FRAGMENT in request.headers
    return console.page(
        request,
        "sample/hole.html" if part else "sample/hole_page.html",
        status=status_of(found.error),
        hole=found,
    )


async def _received(request: Request) -> Response:
    """The bytes of a received file: to save, or with `?shown` as a picture."""
    console = console_of(request)
    files = console.kept(ReceivedFiles)
    held = files.find(visitor_of(request), request.path_params["id"])
    headers = attachment(f"Received - {held.label}")
    if held.picture and "shown" in request.query_params:
        headers = {"Content-Type": held.picture}
    headers["Content-Length"] = str(held.size)
    return BodyAnswer(HTTPStatus.OK, headers, _touching(request, held))


async def _touching(request: Request, held: ReceivedFile) -> AsyncGenerator[Piece, None]:
    console = console_of(request)
    files = console.kept(ReceivedFiles)
    with console.body(request):
        async with aclosing(held.chunks()) as chunks:
            async for chunk in chunks:
                files.touch(held)
                yield chunk


async def _end(request: Request) -> Response:
    """Keep a received file, or give it back."""
    console = console_of(request)
    files = console.kept(ReceivedFiles)
    kept = request.path_params["end"] == "keep"
    try:
        held = files.find(visitor_of(request), request.path_params["id"])
        files.release(held)
        await (held.keep() if kept else held.give_back())
        if held.error is not None:
            raise held.error
    except DrayError as error:
        return _failed(request, error)
    if FRAGMENT in request.headers:
        template = "sample/received.html" if kept else "sample/given_back.html"
        return console.page(request, template, held=held)
    where = "was received and has left the queue" if kept else "is in its queue again"
    console.tell(request, f"{held.label or 'The message'} {where}.")
    return console.go_to("/sample")


async def _afresh(request: Request) -> Response:
    """Ask before both queues are deleted; then do it."""
    console = console_of(request)
    manager = await console.manager(request)
    if request.method != "POST":
        return console.page(request, "sample/afresh.html", counts=await queues.counts(manager))
    await read_form(request)
    await queues.start_afresh(manager)
    console.tell(request, "Both queues were deleted and made again; they are empty.")
    return console.go_to("/sample")


routes: list[BaseRoute] = [
    Route("/sample", _page),
    Route("/sample/queue", _queue),
    Route("/sample/sent/{kind}", _send, methods=["PUT", "POST"]),
    Route("/sample/receive", _receive, methods=["POST"]),
    Route("/sample/received/{id}", _received),
    Route("/sample/received/{id}/{end:str}", _end, methods=["POST"]),
    Route("/sample/afresh", _afresh, methods=["GET", "POST"]),
]
