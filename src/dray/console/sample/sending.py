"""Sends a file as it comes from the browser: plainly, or as a large message in constant memory.

A browser without script sends it in a form (RFC 7578): parts between lines of a boundary. Fields
before the file are kept, the file is given in chunks, and nothing is written anywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final, NamedTuple

from dray.aio import LargeMessageQueue, Manager
from dray.console.form import whole_number
from dray.console.http.bodies import RequestBody
from dray.console.sample.queues import QUEUE, STATUS_QUEUE, make_missing
from dray.errors import InvalidArgument, MessageNotFound, Misuse
from dray.large.split import check_fragment_size
from dray.model.limits import FRAGMENT_BYTES_MAX, LABEL_CHARACTERS_MAX, MESSAGE_BYTES_MAX
from dray.wire.record import too_large

FRAGMENT_SIZE: Final = 10_000
"""The default of the original."""
WRONG_FRAGMENT_SIZE: Final = (
    f"write a whole number from 1 to {FRAGMENT_BYTES_MAX:,}, or 0 for the largest"
)
LARGE: Final = "large"
PLAIN: Final = "plain"
_HEAD_BYTES_MAX: Final = 16 * 1024
"""Names of files and fields are far shorter."""
_FIELD_BYTES_MAX: Final = 64 * 1024
_FIELDS_MAX: Final = 20
_BROKEN: Final = "the form cannot be read; use the page of the console"
_NO_FILE: Final = "no file was chosen; choose one and send again"
_BOUNDARY: Final = re.compile(r'(?i:multipart/form-data\s*;.*?boundary)="?([^";,\s]{1,70})"?')
_NAME: Final = re.compile(r'\bname="([^"]*)"')
_FILE_NAME: Final = re.compile(r'\bfilename="([^"]*)"')


class FileInQueue(NamedTuple):
    """A file that is in the queue now."""

    label: str
    size: int
    id: str
    digest: str
    parts: int
    """0 for a plain message."""


class FileToSend(NamedTuple):
    """A file on its way from the browser; `size` is None while nobody knows it."""

    label: str
    size: int | None
    chunks: RequestBody | AsyncGenerator[bytes, None]


def read_fragment_size(text: str) -> int | None:
    """Read the field: 1 to the largest, 0 for the largest; None for anything else."""
    try:
        number = whole_number(text)
        return check_fragment_size(text if number is None else number)
    except InvalidArgument:
        return None


async def send_plain(manager: Manager, file: FileToSend) -> FileInQueue:
    """Send one plain message; raises `MessageTooLarge` before more than one is in memory."""
    await make_missing(manager)
    if file.size is not None and file.size > MESSAGE_BYTES_MAX:
        raise too_large(file.size)
    body = bytearray()
    async for chunk in file.chunks:
        if len(body) <= MESSAGE_BYTES_MAX:
            body += chunk
    message_id = await manager.queue(QUEUE).send(body, label=file.label[:LABEL_CHARACTERS_MAX])
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    return FileInQueue(file.label, len(body), message_id, digest, 0)


async def send_large(manager: Manager, file: FileToSend, fragment_size: int) -> FileInQueue:
    """Send a large message; it asks for dead letters."""
    await make_missing(manager)
    large = LargeMessageQueue(
        manager.queue(QUEUE), fragment_size=fragment_size, status_queue=STATUS_QUEUE
    )
    sequence_id = await large.send(
        file.chunks, label=file.label[:LABEL_CHARACTERS_MAX], use_dead_letter_queue=True
    )
    try:
        async with large.peek_by_id(sequence_id) as sent:
            digest = f"{sent.digest_kind}:{sent.digest.hex()}"
            return FileInQueue(sent.label, sent.size, sequence_id, digest, sent.fragment_count + 2)
    except MessageNotFound:
        # A receiver was quicker than our look.
        return FileInQueue(file.label, file.size or 0, sequence_id, "", 0)


class FormWithFile:
    """Reads the parts of a form one after another."""

    def __init__(self, content_type: str, chunks: AsyncIterator[memoryview]) -> None:
        """Read from a request; raises `Misuse` for another kind of form."""
        found = _BOUNDARY.match(content_type)
        if found is None:
            raise Misuse(_BROKEN)
        self.fields: dict[str, str] = {}
        self.file_name = ""
        self._end = b"\r\n--" + found[1].encode("latin-1")
        self._chunks = chunks
        # The first boundary has no line before it.
        self._buffer = bytearray(b"\r\n")

    async def file(self) -> AsyncGenerator[bytes, None]:
        """Read up to the file and give its chunks; `fields` and `file_name` are known then."""
        # Before the first boundary there is nothing.
        if await self._field():
            raise Misuse(_BROKEN)
        for _ in range(_FIELDS_MAX):
            head = await self._head()
            name, file = _NAME.search(head), _FILE_NAME.search(head)
            if name is None:
                raise Misuse(_BROKEN)
            if file is not None:
                if not file[1]:
                    raise Misuse(_NO_FILE)
                self.file_name = file[1].replace("%22", '"')
                return self._rest()
            self.fields[name[1]] = await self._field()
        raise Misuse(_BROKEN)

    async def _rest(self) -> AsyncGenerator[bytes, None]:
        async for chunk in self._body():
            yield chunk
        async for _ in self._chunks:
            pass

    async def _field(self) -> str:
        value = bytearray()
        async for chunk in self._body():
            value += chunk
            if len(value) > _FIELD_BYTES_MAX:
                raise Misuse(_BROKEN)
        return value.decode("utf-8", "replace")

    async def _head(self) -> str:
        """The lines before a part."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if self._buffer.startswith(b"--") and b"\r\n" in self._buffer[:4]:
                raise Misuse(_NO_FILE)
            if len(self._buffer) > _HEAD_BYTES_MAX:
                raise Misuse(_BROKEN)
            await self._more()
        head = self._buffer[:end].decode("utf-8", "replace")
        del self._buffer[: end + 4]
        return head

    async def _body(self) -> AsyncGenerator[bytes, None]:
        """The bytes of a part, up to the boundary behind it."""
        keep = len(self._end) - 1
        while (end := self._buffer.find(self._end)) < 0:
            if len(self._buffer) > keep:
                yield bytes(self._buffer[:-keep])
                del self._buffer[:-keep]
            await self._more()
        if end:
            yield bytes(self._buffer[:end])
        del self._buffer[: end + len(self._end)]

    async def _more(self) -> None:
        chunk = await anext(self._chunks, None)
        if chunk is None:
            raise Misuse(_BROKEN)
        self._buffer += chunk
