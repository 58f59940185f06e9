"""Formatters: objects to bytes before a large message is cut, and back when it is read (S0-13)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

import msgspec


class Formatter(Protocol):
    """Turns objects of the application into bodies of messages and back."""

    def encode(self, value: Any) -> bytes:  # noqa: ANN401 - each formatter says what it takes
        """Give the bytes to send."""
        ...

    def decode(self, body: bytes) -> Any:  # noqa: ANN401 - each formatter says what it gives
        """Give the object back."""
        ...


Encoder = Formatter | Callable[[Any], bytes]
Decoder = Formatter | Callable[[bytes], Any]
"""A program that only sends, or only reads, may give one function."""


def encoded(formatter: Encoder, value: object) -> bytes:
    """Give the bytes of an object; raises `TypeError` for a formatter that is none."""
    body = _function(formatter, "encode")(value)
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError(f"a formatter gives bytes, not {type(body).__name__}")
    return bytes(body)


def decoded(formatter: Decoder, body: bytes) -> Any:  # noqa: ANN401 - see Formatter.decode
    """Give the object that bytes stand for; see `encoded`."""
    return _function(formatter, "decode")(body)


def _function(formatter: object, name: str) -> Callable[[Any], Any]:
    # Texts and bytes have methods of these names, which are about something else.
    is_text = isinstance(formatter, str | bytes | bytearray)
    function: object = None if is_text else getattr(formatter, name, formatter)
    if not callable(function):
        raise TypeError(
            f"a formatter is an object with encode and decode, or a function, not a"
            f" {type(formatter).__name__}"
        )
    return function


class BytesFormatter:
    """Bytes as they are."""

    def encode(self, value: bytes) -> bytes:
        """Give the bytes, also those that are listed as numbers; raises `TypeError`."""
        if hasattr(value, "__index__"):
            # To `bytes` it would be a length.
            raise TypeError(f"bytes are sent as bytes, not as a {type(value).__name__}")
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
        """Encode the text; raises `TypeError` for what is none."""
        if not isinstance(value, str):
            raise TypeError(f"text is sent as a str, not as a {type(value).__name__}")
        return value.encode(self._encoding)

    def decode(self, body: bytes) -> str:
        """Decode the text."""
        return body.decode(self._encoding)


class JsonFormatter:
    """JSON values."""

    def encode(self, value: object) -> bytes:
        """Write compact JSON; raises `TypeError`, `ValueError` for what it cannot say, as NaN."""
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode()

    def decode(self, body: bytes) -> object:
        """Read JSON."""
        return json.loads(body)


class MsgpackFormatter:
    """MessagePack values: JSON values and bytes."""

    def encode(self, value: object) -> bytes:
        """Write MessagePack."""
        return msgspec.msgpack.encode(value)

    def decode(self, body: bytes) -> object:
        """Read MessagePack."""
        return msgspec.msgpack.decode(body)
