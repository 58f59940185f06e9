"""`Upload-Metadata` of tus: the queue of an upload, and the properties of its message."""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple
from urllib.parse import quote

from dray.console.http.refusal import HttpRefusal
from dray.console.v1.limits import METADATA_BYTES_MAX
from dray.console.v1.properties import PREFIX, SENT, TEXT, properties_of
from dray.model.message import Message

_QUEUE: Final = "queue"
_FILE: Final = "filename"
_TEXTS: Final = frozenset(each.header.lower() for each in SENT if each.form == TEXT)


class UploadMetadata(NamedTuple):
    """The header as it came, the queue that it names, and the message that the upload becomes."""

    said: str
    queue: str
    message: Message


def metadata_of(said: str) -> UploadMetadata:
    """Read the header `Upload-Metadata`; raises `HttpRefusal`. Keys of others are not read."""
    if len(said) > METADATA_BYTES_MAX:
        raise HttpRefusal(
            413, "metadata-too-large", f"Upload-Metadata has at most {METADATA_BYTES_MAX}"
            " characters; send less of it",
        )  # fmt: skip
    given = _values(said)
    queue = _text(given, _QUEUE)
    if not queue:
        raise _refused("names no queue; add queue in base64")
    headers = {key: _text(given, key) for key in given if key.startswith(PREFIX)}
    if _FILE in given:
        headers.setdefault("dray-label", _text(given, _FILE))
    headers = {key: quote(text) if key in _TEXTS else text for key, text in headers.items()}
    return UploadMetadata(said, queue, Message(**properties_of(headers, list(headers))))


def _values(said: str) -> dict[str, bytes]:
    given: dict[str, bytes] = {}
    for pair in filter(None, (each.strip() for each in said.split(","))):
        key, _, value = pair.partition(" ")
        name = key.lower()
        if name in given or not key.isascii():
            raise _refused(f"has the key {key!r}, which is not ASCII or comes twice; change it")
        try:
            given[name] = base64.b64decode(value, validate=True)
        except (ValueError, binascii.Error) as error:
            raise _refused(
                f"has a value of {key!r} that is no base64: {error}; encode it"
            ) from error
    return given


def _text(given: dict[str, bytes], key: str) -> str:
    try:
        return given.get(key, b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refused(f"has a value of {key!r} that is no UTF-8: {error}; encode it") from error


def _refused(why: str) -> HttpRefusal:
    return HttpRefusal(400, "bad-header", f"Upload-Metadata {why}")
