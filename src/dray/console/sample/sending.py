"""Sends a file as it comes from the browser: plainly, or as a large message in constant memory."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from typing import Final, NamedTuple

from dray.aio import LargeMessageQueue, Manager
from dray.console.form import whole_number
from dray.console.http.bodies import RequestBody
from dray.console.sample.queues import QUEUE, STATUS_QUEUE, make_missing
from dray.errors import InvalidArgument, MessageNotFound
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
