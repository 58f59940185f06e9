"""`/v1/uploads`: the tus protocol 1.0 with creation, expiration, termination and checksum."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import wraps
from typing import Final

from starlette.responses import Response

from dray.console.http.bodies import RequestBody
from dray.console.http.refusal import HttpRefusal
from dray.console.v1.calls import Call, Handler, nothing
from dray.console.v1.limits import CHECKED_BYTES_MAX, UPLOAD_BYTES_MAX
from dray.console.v1.metadata import metadata_of
from dray.console.v1.properties import shown
from dray.console.v1.resumable import (
    HttpUpload,
    RequestChecksum,
    UploadName,
    begun,
    drop,
    gone,
    progress_of,
    resumed,
    too_long,
)
from dray.model.limits import UPLOAD_AGE_S_MAX

VERSION: Final = "1.0.0"
ALGORITHMS: Final = ("sha1", "sha256", "md5")
TUS: Final = {"Tus-Resumable": VERSION, "Cache-Control": "no-store"}
"""Headers of every answer at the addresses of uploads."""
METHOD_OVERRIDE: Final = "x-http-method-override"
"""In a request of tus this names its method, for clients that can send a few methods only."""
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
    """A handler that speaks tus: it checks the version first."""

    @wraps(handler)
    async def spoken(call: Call) -> Response:
        if call.request.headers.get("tus-resumable") != VERSION:
            raise HttpRefusal(
                412, "wrong-tus-version", f"this server speaks tus {VERSION}; send"
                f" Tus-Resumable: {VERSION}",
                {"Tus-Version": VERSION},
            )  # fmt: skip
        return await handler(call)

    return spoken


async def tell(call: Call) -> Response:
    """Tell the version and the extensions of tus."""
    del call
    return nothing(204, _KNOWN)


@in_tus
async def create(call: Call) -> Response:
    """Begin an upload."""
    headers = call.request.headers
    if "upload-concat" in headers:
        # Each piece would become a message of its own.
        raise HttpRefusal(
            400, "bad-header", "Upload-Concat is of the extension concatenation, which this server"
            " does not have; send the body as one upload",
        )  # fmt: skip
    length = _whole(headers, "Upload-Length")
    if length > UPLOAD_BYTES_MAX:
        raise HttpRefusal(
            413, "upload-too-long", f"an upload has at most {UPLOAD_BYTES_MAX} bytes; send several"
        )
    metadata = metadata_of(headers.get("upload-metadata", ""))
    upload = await begun(call.caller.manager.queue(metadata.queue), length, metadata)
    if not upload.committed:
        call.caller.uploads.keep(call.caller.name, upload)
    told = {"Location": f"/v1/uploads/{upload.name}", **_id(upload.name)}
    return nothing(201, {**told, **_progress(upload.name, upload.offset)})


@in_tus
async def describe(call: Call) -> Response:
    """Progress of an upload. A request that still sends it ends, as its connection may be dead."""
    name, link = _name(call), call.caller.link
    upload = call.caller.uploads.find(call.caller.name, name)
    if upload is None:
        offset, metadata = await progress_of(link, name)
    else:
        upload.interrupt()
        async with upload.alone():
            await _attached(call, upload)
            offset, metadata = upload.offset, upload.metadata
    told = {"Upload-Length": str(name.length), **_id(name)}
    if metadata:
        told["Upload-Metadata"] = metadata
    return nothing(200, {**told, "Upload-Offset": str(offset)})


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
        body = RequestBody(call.request)
        async with upload.sent_by(body):
            await _attached(call, upload)
            if offset != upload.offset:
                raise HttpRefusal(
                    409, "wrong-offset", f"the upload is at byte {upload.offset} and not at"
                    f" {offset}; go on there",
                    {"Upload-Offset": str(upload.offset)},
                )  # fmt: skip
            if (body.declared or 0) > name.length - offset:
                # Before the first byte of it is kept.
                raise too_long(name.length)
            if not upload.committed:
                await upload.take(caller.link, body, check)
            elif await body.readinto(memoryview(bytearray(1))):
                raise too_long(name.length)
    return nothing(204, _progress(name, upload.offset))


@in_tus
async def terminate(call: Call) -> Response:
    """Drop an upload. A request that still sends it ends."""
    name, link, uploads = _name(call), call.caller.link, call.caller.uploads
    upload = uploads.find(call.caller.name, name)
    if upload is None:
        await drop(link, name)
    else:
        upload.interrupt()
        async with upload.alone():
            await drop(link, name)
            uploads.forget(call.caller.name, name)
    return nothing()


async def _attached(call: Call, upload: HttpUpload) -> None:
    """Have an upload at hand on the caller's connection, as the queue manager has it."""
    try:
        await upload.attach(call.caller.link)
    except HttpRefusal:
        call.caller.uploads.forget(call.caller.name, upload.name)
        raise


def _id(name: UploadName) -> dict[str, str]:
    return {"Dray-Id": shown(name.sequence_id)}


def _progress(name: UploadName, offset: int) -> dict[str, str]:
    """The progress of an upload, and the time at which it expires if nobody goes on with it."""
    told = {"Upload-Offset": str(offset)}
    if offset < name.length:
        told["Upload-Expires"] = formatdate(time.time() + UPLOAD_AGE_S_MAX, usegmt=True)
    return told


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
    except ValueError:
        digest = b""
    if kind not in ALGORITHMS or not digest:
        raise HttpRefusal(
            400, "bad-checksum", f"Upload-Checksum is {said!r}; send one of {', '.join(ALGORITHMS)}"
            " and the digest in base64",
        )  # fmt: skip
    return RequestChecksum(hashlib.new(kind, usedforsecurity=False), digest)
