"""Payloads inside a job: a large message as a file, on an executor, without taking it.

Fragments are fetched when they are read, and one is kept in memory. Each is checked by its CRC32C.
The digest of the whole is checked when the last byte of the body has been read and none before it
was passed over, in whatever steps.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.client.awaited.unreadable import Unreadable
from dray.client.calls.public_calls import checked
from dray.errors import LargeMessageCorrupt, LargeMessageHole, MessageNotFound
from dray.large.digests import DIGESTS
from dray.model.arguments import no_sense
from dray.spark.managers import Managers, credentials_named
from dray.spark.source.large import look_at
from dray.spark.source.options import CLAIM_TIMEOUT_S
from dray.spark.source.ranges import is_there

if TYPE_CHECKING:
    from dray.client.blocking.large_message import LargeMessage

_BUFFER_BYTES = 1 << 16
_NEEDED = ("manager", "queue", "sequence_id", "first_lookup_id", "missing")


@checked
def open_payload(row: Any, *, credentials: str | Path | None = None) -> io.BufferedReader:
    """Open the large message of a row as a readable, seekable binary file; it stays in its queue.

    `row` is a Row, a dict or a pandas Series with the columns of `content=large`. Close the file,
    or use it in a `with` block. Reading raises `LargeMessageCorrupt` if a fragment is damaged, or
    if the digest does not fit what was read to the end. Raises `LargeMessageHole` for a message
    with missing parts, `MessageNotFound` if it is gone. It waits for a message that a receiver
    holds. `credentials` is the file of that name, as for `land`.
    """
    columns = _columns_of(row)
    missing = list(columns["missing"])
    if missing:
        raise LargeMessageHole(
            f"large message {columns['sequence_id']} has no {', '.join(missing)}; leave out rows"
            " whose column missing is not empty",
            sequence_id=columns["sequence_id"],
            missing=missing,
        )
    managers = Managers(credentials_named(credentials, columns["manager"]))
    try:
        message = _opened(managers, columns)
        wanted = bytes.fromhex(columns.get("digest") or message.digest.hex())
        return io.BufferedReader(_PayloadBytes(message, wanted, managers), _BUFFER_BYTES)
    except BaseException:
        managers.close()
        raise


def _columns_of(row: Any) -> dict[str, Any]:
    if isinstance(row, Mapping):
        columns = dict(row)
    elif hasattr(row, "asDict"):
        columns = row.asDict()
    elif hasattr(row, "to_dict"):
        columns = row.to_dict()
    else:
        raise no_sense("row", "a Row, a dict or a pandas Series with columns of content=large", row)
    lacking = [name for name in _NEEDED if columns.get(name) is None]
    if lacking:
        raise no_sense(
            "row", f"a row of content=large with the columns {', '.join(_NEEDED)}", sorted(columns)
        )
    return columns


def _opened(managers: Managers, columns: dict[str, Any]) -> LargeMessage:
    queue = managers.raw_queue(columns["manager"], columns["queue"])
    while True:
        try:
            return look_at(queue, columns["sequence_id"])[0]
        except Unreadable as unreadable:
            raise unreadable.told("it stays in the queue") from unreadable
        except MessageNotFound:
            if not is_there(queue, int(columns["first_lookup_id"]), CLAIM_TIMEOUT_S):
                raise


class _PayloadBytes(io.RawIOBase):
    """The bytes of a body; it hashes each byte once, in order, and closes its connection."""

    def __init__(self, message: LargeMessage, digest: bytes, managers: Managers) -> None:
        super().__init__()
        self._message = message
        self._file = message.open()
        self._digest = digest
        self._managers = managers
        self._hash = DIGESTS[message.digest_kind]()
        self._hashed = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        begin = self._file.tell()
        view = memoryview(buffer).cast("B")
        count = self._file.readinto(view)
        if begin <= self._hashed < begin + count:
            self._hash.update(view[self._hashed - begin : count])
            self._hashed = begin + count
            self._check_whole()
        elif not self._message.size:
            self._check_whole()
        return count

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
            self._managers.close()
        super().close()

    def _check_whole(self) -> None:
        if self._hashed == self._message.size and self._hash.digest() != self._digest:
            raise LargeMessageCorrupt(
                f"large message {self._message.sequence_id} is not what was sent: its digest does"
                " not fit; deal with it as with a hole",
                sequence_id=self._message.sequence_id,
            )
