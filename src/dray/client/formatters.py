"""Formatters: objects to bytes before a large message is cut, and back when it is read (S0-13)."""

from __future__ import annotations

import json
from typing import Any, Protocol

import msgspec


class Formatter(Protocol):
    """What turns an application's object into the body of a message and back."""

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - each formatter says what it takes
        """Give the bytes to send."""
        ...

    def decode(self, body: bytes) -> Any:  # noqa: ANN401 - each formatter says what it gives
        """Give the object back."""
        ...


class BytesFormatter:
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        """Give the bytes."""
        return bytes(value)

    def decode(self, body: bytes) -> bytes:
        """Give the bytes."""
        return body


class TextFormatter:
    """Text as UTF-8, or in another encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        """Name the encoding."""
        self._encoding = encoding

    def encode(self, value: str) -> bytes:
        """Encode the text."""
        return value.encode(self._encoding)

    def decode(self, body: bytes) -> str:
        """Decode the text."""
        return body.decode(self._encoding)


class JsonFormatter:
    """What JSON can say."""

    def encode(self, value: object) -> bytes:
        """Write compact JSON."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()

    def decode(self, body: bytes) -> object:
        """Read JSON."""
        return json.loads(body)


class MsgpackFormatter:
    """What MessagePack can say: as JSON, and bytes."""

    def encode(self, value: object) -> bytes:
        """Write MessagePack."""
        return msgspec.msgpack.encode(value)

    def decode(self, body: bytes) -> object:
        """Read MessagePack."""
        return msgspec.msgpack.decode(body)
