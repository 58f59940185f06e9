"""The access log: who did what by the queue manager, one JSON line each, chained by digests.

    {"number":1,"time":"2026-03-01T12:00:00.000Z","act":"refused","caller":"user:ada",
     "address":"process 4711","session":7,"frame":"PurgeQueue","subject":"orders","times":1,
     "previous":"0000...0000"}

`access.jsonl` lies beside the audit of the storage folder. When it is full it becomes
`access.1.jsonl`, and the older ones move on by one; the oldest goes. The chain runs through all of
them, so each first line names the digest of the last line of the file before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

import msgspec

from dray.store.chain import (
    BEGINNING,
    ChainedFile,
    ChainReport,
    before_first,
    decoded,
    read_end,
    read_lines,
    unusable,
    verify_chain,
)
from dray.store.limits import ACCESS_LINE_BYTES, ACCESS_LOG_BYTES_MAX, ACCESS_LOGS_MAX

ACCESS_NAME: Final = "access.jsonl"
ACCESS_NAMES: Final = (
    *(f"access.{number}.jsonl" for number in range(ACCESS_LOGS_MAX - 1, 0, -1)),
    ACCESS_NAME,
)
"""All names, the oldest first."""


class AccessEntry(msgspec.Struct, frozen=True):
    """One act of a caller.

    `act`: refused, manage, keep, deliver, rules, lost; `session` is 0 outside of sessions; with
    `times` above 1 the line stands for so many acts of a minute, of which it names the last.
    """

    number: int
    time: str
    act: str
    caller: str = ""
    address: str = ""
    session: int = 0
    frame: str = ""
    subject: str = ""
    times: int = 1
    previous: str = ""


class AccessLog:
    """The access log of one data directory, open for appending."""

    def __init__(
        self, data: str | os.PathLike[str], *, file_bytes_max: int = ACCESS_LOG_BYTES_MAX
    ) -> None:
        """Open or begin `access.jsonl` in the data directory. Raises StoreError."""
        self._data = Path(data)
        self._bytes_max = file_bytes_max
        older = self._data / ACCESS_NAMES[-2]
        head = BEGINNING
        first = next(read_lines(self._data / ACCESS_NAME), b"")
        if not first.endswith(b"\n") and older.exists():
            # A crash came between the rename and the end of the first line of the new file.
            report = verify_chain(older, before_first(older))
            head = head._replace(entries=report.entries, digest=report.digest)
        self._file = ChainedFile(self._data / ACCESS_NAME, head)

    def append(self, entries: Sequence[AccessEntry]) -> None:
        """Write entries durably, all or none, numbered anew. Raises StoreError."""
        if self._file.size >= self._bytes_max:
            self._begin_another()
        self._file.add(entries)

    def close(self) -> None:
        """Give the descriptor back."""
        self._file.close()

    def _begin_another(self) -> None:
        head = self._file.head
        newer = [self._data / name for name in ACCESS_NAMES]
        try:
            for older, name in pairwise(newer):
                if name.exists():
                    name.replace(older)
        except OSError as error:
            raise unusable(self._data / ACCESS_NAME, error) from error
        full, self._file = self._file, ChainedFile(self._data / ACCESS_NAME, head)
        full.close()


def verify_access_log(data: Path) -> tuple[str, ChainReport]:
    """Check the chain through all files; name the last that was looked at, and the finding.

    A queue manager may write meanwhile. So a break counts if it is found twice in a row: a change
    of somebody else stays where it is. Raises StoreError if one cannot be read.
    """
    found = _looked_at(data)
    while not found[1].intact:
        before, found = found, _looked_at(data)
        if found[1] == before[1]:
            break
    return found


def _looked_at(data: Path) -> tuple[str, ChainReport]:
    try:
        names = [name for name in ACCESS_NAMES if (data / name).exists()]
    except OSError as error:
        raise unusable(data, error) from error
    if not names:
        return ACCESS_NAME, ChainReport(*BEGINNING)
    # The oldest files are gone when the first one that is left has the last of all names.
    was_full = names[0] == ACCESS_NAMES[0]
    head = before_first(data / names[0]) if was_full else BEGINNING
    for name in names:
        report = verify_chain(data / name, head)
        if not report.intact:
            return name, report
        head = head._replace(entries=report.entries, digest=report.digest)
    return names[-1], report


def last_entries(data: Path, count: int) -> list[AccessEntry]:
    """The last entries that can be read, the newest first. Raises StoreError.

    Only the ends of the files are read, however long they are.
    """
    found: list[AccessEntry] = []
    for name in reversed(ACCESS_NAMES):
        lines = read_end(data / name, ACCESS_LINE_BYTES * count).splitlines()
        found += islice(decoded(reversed(lines), AccessEntry), count - len(found))
        if len(found) == count:
            break
    return found


def read_access_log(data: Path) -> Iterator[AccessEntry]:
    """All entries that can be read, oldest first. Raises StoreError."""
    for name in ACCESS_NAMES:
        yield from decoded(read_lines(data / name), AccessEntry)
