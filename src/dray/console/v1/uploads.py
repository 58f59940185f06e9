"""`/v1/uploads`: the tus protocol 1.0 with creation, expiration, termination and checksum."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import re
import time
from email.utils import formatdate
from functools import wraps
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import Response

from dray.console.http.bodies import RequestBody
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.calls import Call, Handler, nothing
from dray.console.v1.limits import (
    CHECKED_BYTES_MAX,
    METADATA_BYTES_MAX,
    SETTLE_S,
    UPLOAD_BYTES_MAX,
)
from dray.console.v1.problems import problem
from dray.console.v1.properties import PREFIX, SENT, TEXT, properties_of, shown
from dray.console.v1.resumable import (
    HttpUpload,
    RequestChecksum,
    UploadName,
    begun,
    drop,
    gone,
    offset_of,
    resumed,
)
from dray.errors import DrayError
from dray.model.limits import UPLOAD_AGE_S_MAX
from dray.model.message import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSION: Final = "1.0.0"
ALGORITHMS: Final = ("sha1", "sha256", "md5")
_TUS: Final = {"Tus-Resumable": VERSION, "Cache-Control": "no-store"}
_KNOWN: Final = {
    "Tus-Version": VERSION,
    "Tus-Extension": "creation,expiration,termination,checksum",
    "Tus-Max-Size": str(UPLOAD_BYTES_MAX),
    "Tus-Checksum-Algorithm": ",".join(ALGORITHMS),
}
_PATCH_TYPE: Final = "application/offset+octet-stream"
_NAME: Final = re.compile(r"([0-9a-f]{32})-([0-9]{1,19})-([0-9]{1,19})\Z", re.ASCII)
_WHOLE: Final = re.compile(r"[0-9]{1,19}\Z", re.ASCII)


def in_tus(handler: Handler) -> Handler:
    """A handler that speaks tus: it checks the version, and each answer names it."""

    @wraps(handler)
    async def spoken(call: Call) -> Response:
        try:
            if call.request.headers.get("tus-resumable") != VERSION:
                raise HttpRefusal(
                    412, "wrong-tus-version", f"this server speaks tus {VERSION}; send"
                    f" Tus-Resumable: {VERSION}",
                    {"Tus-Version": VERSION},
                )  # fmt: skip
            return await handler(call)
        except (DrayError, HttpRefusal) as error:
            answer = problem(error)
            answer.headers.update(_TUS)
            return answer

    return spoken


async def tell(call: Call) -> Response:
    """Tell the version and the extensions of tus."""
    del call
    return nothing(204, {**_TUS, **_KNOWN})


@in_tus
async def create(call: Call) -> Response:
    """Begin an upload."""
    headers = call.request.headers
    length = _whole(headers, "Upload-Length")
    if length > UPLOAD_BYTES_MAX:
        raise HttpRefusal(
            413, "upload-too-long", f"an upload has at most {UPLOAD_BYTES_MAX} bytes; send several"
        )
    queue, properties = _metadata(headers.get("upload-metadata", ""))
    message = Message(**properties_of(properties, list(properties)))
    upload = await begun(call.caller.manager.queue(queue), length, message, properties)
    if not upload.committed:
        call.caller.uploads.keep(call.caller.name, upload)
    told = {"Location": f"/v1/uploads/{upload.name}", "Upload-Offset": "0"}
    return nothing(201, {**_TUS, **told, **_id(upload.name), **_expires()})


@in_tus
async def describe(call: Call) -> Response:
    """How far an upload is. A request that still sends it ends, as its connection may be dead."""
    name, link = _name(call), call.caller.link
    upload = call.caller.uploads.find(call.caller.name, name)
    if upload is None:
        offset = await offset_of(link, name)
    else:
        upload.interrupt()
        try:
            async with asyncio.timeout(SETTLE_S), upload.lock:
                await _attached(call, upload)
                offset = upload.offset
        except TimeoutError as error:
            raise _in_use() from error
    told = {"Upload-Offset": str(offset), "Upload-Length": str(name.length)}
    return nothing(200, {**_TUS, **told, **_id(name), **_expires()})


@in_tus
async def patch(call: Call) -> Response:
    """Take more bytes of an upload."""
    headers, caller, name = call.request.headers, call.caller, _name(call)
    if headers.get("content-type") != _PATCH_TYPE:
        raise HttpRefusal(
            415, "bad-content-type", f"the Content-Type is not {_PATCH_TYPE}; send it so"
        )
    offset, check = _whole(headers, "Upload-Offset"), _check_of(call)
    with caller.body():
        upload = caller.uploads.find(caller.name, name)
        if upload is None:
            upload = await resumed(caller.manager.queue, caller.link, name)
            upload = caller.uploads.keep(caller.name, upload)
        _check_free(upload)
        async with upload.lock:
            await _attached(call, upload)
            if offset != upload.offset:
                raise HttpRefusal(
                    409, "wrong-offset", f"the upload is at byte {upload.offset} and not at"
                    f" {offset}; go on there",
                    {"Upload-Offset": str(upload.offset)},
                )  # fmt: skip
            if not upload.committed:
                await upload.take(caller.link, RequestBody(call.request), check)
    return nothing(204, {**_TUS, "Upload-Offset": str(upload.offset), **_expires()})


@in_tus
async def terminate(call: Call) -> Response:
    """Drop an upload."""
    name = _name(call)
    upload = call.caller.uploads.find(call.caller.name, name)
    if upload is not None:
        _check_free(upload)
    await drop(call.caller.link, name)
    call.caller.uploads.forget(call.caller.name, name)
    return nothing(204, _TUS)


def _check_free(upload: HttpUpload) -> None:
    if upload.lock.locked():
        raise _in_use()


def _in_use() -> HttpRefusal:
    return HttpRefusal(423, "in-use", "another request sends this upload; wait for its end")


async def _attached(call: Call, upload: HttpUpload) -> None:
    """Have an upload at hand on the caller's connection, as the queue manager has it."""
    try:
        await upload.attach(call.caller.link)
    except HttpRefusal:
        call.caller.uploads.forget(call.caller.name, upload.name)
        raise


def _id(name: UploadName) -> dict[str, str]:
    return {"Dray-Id": shown(name.sequence_id)}


def _expires() -> dict[str, str]:
    return {"Upload-Expires": formatdate(time.time() + UPLOAD_AGE_S_MAX, usegmt=True)}


def _whole(headers: Mapping[str, str], name: str) -> int:
    said = headers.get(name.lower(), "")
    if not _WHOLE.match(said):
        raise HttpRefusal(400, "bad-header", f"{name} is {said!r}; send a whole number of bytes")
    return int(said)


def _name(call: Call) -> UploadName:
    found = _NAME.match(call.named("upload"))
    if found is None:
        raise gone()
    return UploadName(found[1], int(found[2]), int(found[3]))


def _metadata(said: str) -> tuple[str, dict[str, str]]:
    """The queue of an upload, and properties of its message as headers of a send."""
    if len(said) > METADATA_BYTES_MAX:
        raise HttpRefusal(
            413, "metadata-too-large", f"Upload-Metadata has at most {METADATA_BYTES_MAX}"
            " characters; send less of it",
        )  # fmt: skip
    given: dict[str, str] = {}
    for pair in filter(None, (each.strip() for each in said.split(","))):
        key, _, value = pair.partition(" ")
        try:
            given[key.lower()] = base64.b64decode(value, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise HttpRefusal(
                400, "bad-header", f"Upload-Metadata has a value of {key!r} that is no text in"
                f" base64: {error}; send it so",
            ) from error  # fmt: skip
    queue = given.get("queue")
    if not queue:
        raise HttpRefusal(400, "bad-header", "Upload-Metadata names no queue; add queue in base64")
    headers = {key: value for key, value in given.items() if key.startswith(PREFIX)}
    if "filename" in given:
        headers.setdefault("dray-label", given["filename"])
    texts = {each.header.lower() for each in SENT if each.form == TEXT}
    return queue, {key: quote(value) if key in texts else value for key, value in headers.items()}


def _check_of(call: Call) -> RequestChecksum | None:
    said = call.request.headers.get("upload-checksum")
    if said is None:
        return None
    kind, _, wanted = said.partition(" ")
    length = call.request.headers.get("content-length")
    if length is None or int(length) > CHECKED_BYTES_MAX:
        raise HttpRefusal(
            413, "body-too-large", f"a request with a checksum says its length, of at most"
            f" {CHECKED_BYTES_MAX} bytes; send less at a time",
        )  # fmt: skip
    try:
        digest = base64.b64decode(wanted, validate=True)
    except binascii.Error:
        digest = b""
    if kind not in ALGORITHMS or not digest:
        raise HttpRefusal(
            400, "bad-checksum", f"Upload-Checksum is {said!r}; send one of {', '.join(ALGORITHMS)}"
            " and the digest in base64",
        )  # fmt: skip
    return RequestChecksum(hashlib.new(kind, usedforsecurity=False), digest)
