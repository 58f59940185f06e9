"""`dray show`: one message of a queue, its properties or its body; it stays in the queue."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Iterator

import click

import dray
from dray.cli.messages import describe, file_of, row_of, values_of
from dray.cli.option_types import MessageIdText
from dray.cli.output import print_json, print_record
from dray.cli.settings import Settings, takes_url_and_json
from dray.errors import MessageNotFound
from dray.model.queued import QueuedMessage
from dray.model.words import hex_line, time_text

_LINE_BYTES = 16
_TIMES = ("sent_time", "arrived_time")
_NANOSECONDS = 1e9


@click.command()
@click.argument("queue")
@click.argument("message_id", metavar="ID", type=MessageIdText(or_position=True))
@click.option("--body", "kind", flag_value="body", help="Write the body to standard output.")
@click.option("--hex", "kind", flag_value="hex", help="Show the body in hexadecimal.")
@takes_url_and_json
def command(settings: Settings, queue: str, message_id: str, *, kind: str | None) -> None:
    """Show all properties of the message ID of QUEUE, or its body; take nothing.

    ID is the id of a message or of a large message, or a position. The body of a large message is
    put together and verified.
    """
    with settings.connect() as manager:
        found = _find(manager, queue, message_id)
        if kind is None:
            _print_properties(settings, manager, found)
            return
        stdout = sys.stdout.buffer
        for piece in _lines(_body(manager, found)) if kind == "hex" else _body(manager, found):
            stdout.write(piece)
        stdout.flush()


def _find(manager: dray.Manager, queue: str, wanted: str) -> QueuedMessage:
    for each in manager.queue(queue).contents():
        if wanted in (each.id, str(each.lookup_id)):
            return each
    raise MessageNotFound(
        f"no message in {queue!r} has the id or position {wanted!r};"
        f" `dray peek {shlex.quote(queue)} --large` lists them"
    )


def _print_properties(settings: Settings, manager: dray.Manager, found: QueuedMessage) -> None:
    values = values_of(found)
    file = file_of(manager, found)
    if not found.parts:
        message = manager.queue(found.queue, raw=True).peek_by_lookup_id(found.lookup_id)
        values |= describe(found.queue, message)
    if settings.as_json:
        print_json(values | {"file": file})
        return
    told = values | row_of(found) if found.parts else values
    for time in _TIMES:
        told[time] = time_text(getattr(found, time))
    if file is not None:
        told["file_path"] = file["path"]
        told["file_time"] = time_text(float(str(file["mtime_ns"])) / _NANOSECONDS)
        told["file_mode"] = f"{file['mode']:04o}"
    known = {key: value for key, value in told.items() if value not in (None, "")}
    print_record({key.replace("_", " "): str(value) for key, value in known.items()})


def _body(manager: dray.Manager, found: QueuedMessage) -> Iterator[bytes]:
    queue = manager.queue(found.queue, raw=True)
    if not found.parts:
        yield bytes(queue.peek_by_lookup_id(found.lookup_id).body)
        return
    with dray.LargeMessageQueue(queue).peek_by_id(found.id) as message:
        yield from message


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """A body as lines: offset, sixteen bytes in hexadecimal, the same as text."""
    rest, offset = b"", 0
    for piece in pieces:
        data = rest + piece
        whole = len(data) - len(data) % _LINE_BYTES
        for at in range(0, whole, _LINE_BYTES):
            yield f"{hex_line(offset + at, data[at : at + _LINE_BYTES])}\n".encode()
        rest, offset = data[whole:], offset + whole
    if rest:
        yield f"{hex_line(offset, rest)}\n".encode()
