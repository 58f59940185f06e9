"""The file in a form that a browser sends without script, read as it comes.

RFC 7578: parts between lines of a boundary. Fields before the file are kept, the file is given in
chunks, and nothing is written anywhere.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Final

from dray.errors import Misuse

_HEAD_BYTES_MAX: Final = 16 * 1024
"""Names of files and fields are far shorter."""
_FIELD_BYTES_MAX: Final = 64 * 1024
_FIELDS_MAX: Final = 20
_BROKEN: Final = "the form cannot be read; use the page of the console"
_NO_FILE: Final = "no file was chosen; choose one and send again"
_BOUNDARY: Final = re.compile(r'(?i:multipart/form-data\s*;.*?boundary)="?([^";,\s]{1,70})"?')
_NAME: Final = re.compile(r'\bname="([^"]*)"')
_FILE_NAME: Final = re.compile(r'\bfilename="([^"]*)"')


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
