"""The audit: what others did to the storage folder, one JSON line each, chained (S3-17).

    {"number":1,"time":"2026-03-01T12:00:00.000Z","change":"edited","file":"QMLog","seen":"running",
     "detail":"67108864 bytes","previous":"0000...0000"}

`audit.jsonl` lies beside the storage folder. That the newest lines were cut off shows in the
manifest, which notes the head of the chain whenever the manager stops. An unfinished line that was
cut off is told in the next entry.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from dray.model.files import name_as_text
from dray.store.chain import ChainedFile, decoded, moment, read_lines

AUDIT_NAME: Final = "audit.jsonl"
_log = logging.getLogger("dray.audit")


class AuditEntry(msgspec.Struct, frozen=True):
    """One change. `change`: added, edited, deleted, moved, cut; `seen`: running, start, command."""

    number: int
    time: str
    change: str
    file: str
    seen: str
    detail: str = ""
    previous: str = ""


def read_entries(path: str | os.PathLike[str]) -> Iterator[AuditEntry]:
    """All entries that can be read, oldest first. Raises StoreError."""
    return decoded(read_lines(Path(path)), AuditEntry)


class AuditLog(ChainedFile):
    """The audit of one data directory, open for appending; any thread may append."""

    def __init__(self, data: str | os.PathLike[str]) -> None:
        """Open or begin `audit.jsonl` in the data directory. Raises StoreError."""
        super().__init__(Path(data) / AUDIT_NAME)

    def append(self, change: str, file: str, *, seen: str, now: float, detail: str = "") -> None:
        """Write an entry durably, and to the log of the program. Raises StoreError."""
        self.append_all([(change, file, detail)], seen=seen, now=now)

    def append_all(self, changes: Sequence[tuple[str, str, str]], *, seen: str, now: float) -> None:
        """The same of many, each a change, a file and a detail, with one sync.

        Bytes of a name that are no UTF-8 stand as escapes, because an entry is JSON.
        """
        told = [(each[0], name_as_text(each[1]), name_as_text(each[2])) for each in changes]
        if told:
            time = moment(now)
            self.add([AuditEntry(0, time, each[0], each[1], seen, each[2]) for each in told])
        for change, file, detail in told if seen != "command" else ():
            _log.warning("%s was %s by another program%s", file, change, detail and f": {detail}")
