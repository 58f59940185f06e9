r"""The sequence ids that a table has, looked up as ranges of the numbers of each source.

    source\number   outside of the source's ranges   not in the table; no file is read
                    inside                           the files say it, the newest first

A source gives its messages rising numbers, so that one range holds many. Each commit carries the
ranges of all before it (`Cover`). They hold every number in the table, and numbers between them
once there are many ranges; that is why a file has the last word. A landing keeps the numbers of the
files that it had to ask, up to a bound. So what it holds in memory does not grow with the table.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from blake3 import blake3

from dray.errors import StoreCorrupt
from dray.model.limits import MIB
from dray.spark.positions import Range

Cover = dict[str, tuple[Range, ...]]
"""For each source, ranges that hold the numbers of all its messages in a table, in order."""

RANGES_MAX = 4_096
"""Ranges of a cover, 100 KB in the footer of each commit; the narrowest gaps are closed first."""
_RANGES_OF_A_SOURCE_MAX = 256
_BYTES_KEPT_MAX = 16 * MIB
"""Numbers of files that were asked, eight bytes each: two million of them."""
_ROWS_AT_ONCE = 65_536
_CONTENT = ["sequence_id", "size", "digest", "body"]
_SEPARATOR = "\\"
_Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Content(NamedTuple):
    """It tells two messages of one id apart: size and digest, of a small one that of its body."""

    size: int
    digest: str


def contents_in(rows: pa.Table | pa.RecordBatch) -> dict[str, Content]:
    """The content of each whole message in rows of a table, by sequence id."""
    return {
        row["sequence_id"]: Content(row["size"], row["digest"] or blake3(row["body"]).hexdigest())
        for row in rows.select(_CONTENT).to_pylist()
        if row["digest"] is not None or row["body"] is not None
    }


class SplitIds(NamedTuple):
    """Sequence ids as columns: for each its source, as an index into `sources`, and its number."""

    sources: list[str]
    which: np.ndarray[Any, Any]
    numbers: _Numbers

    def by_source(self) -> Iterator[tuple[str, np.ndarray[Any, Any], _Numbers]]:
        """For each source the places of its ids, and their numbers."""
        for index, source in enumerate(self.sources):
            places = np.flatnonzero(self.which == index)
            yield source, places, self.numbers[places]


def split_ids(ids: pa.Array | pa.ChunkedArray) -> SplitIds:
    """Take sequence ids apart."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    parts = pc.split_pattern(ids, _SEPARATOR).flatten()
    sources = parts.take(pa.array(np.arange(0, len(parts), 2))).dictionary_encode()
    numbers = parts.take(pa.array(np.arange(1, len(parts), 2))).cast(pa.int64())
    return SplitIds(sources.dictionary.to_pylist(), sources.indices.to_numpy(), numbers.to_numpy())


def with_ids(cover: Mapping[str, tuple[Range, ...]], ids: pa.Array | pa.ChunkedArray) -> Cover:
    """A cover that also holds these ids."""
    wider = dict(cover)
    split = split_ids(ids)
    most = max(1, min(_RANGES_OF_A_SOURCE_MAX, RANGES_MAX // len({*wider, *split.sources, ""})))
    for source, _, numbers in split.by_source():
        wider[source] = _joined(wider.get(source, ()), numbers, most)
    return wider


class LandedIds:
    """Says which ids a table has, from its cover and, where that is not enough, its files."""

    def __init__(self, files: Callable[[], list[Path]]) -> None:
        """Begin without having read anything. `files` gives the files of the table, in order."""
        self._files = files
        self._kept: OrderedDict[Path, dict[str, _Numbers]] = OrderedDict()
        self._bytes_kept = 0
        self._bounds: dict[Path, dict[str, Range]] = {}
        self.files_read = 0
        """The number of times that a file was read."""

    def have(self, cover: Cover, ids: pa.Array | pa.ChunkedArray) -> list[bool]:
        """For each id, whether it is in the table."""
        split = split_ids(ids)
        maybe = np.zeros(len(ids), bool)
        for source, places, numbers in split.by_source():
            maybe[places] = _within(cover.get(source, ()), numbers)
        found = np.zeros(len(ids), bool)
        asked = np.flatnonzero(maybe)
        files = self._files() if len(asked) else []
        while files:
            try:
                self._ask(files, split, asked, found)
                break
            except FileNotFoundError as error:
                # A compaction has joined files meanwhile: the new list has the file with the rows.
                before, files = files, self._files()
                if before == files:
                    raise _damaged(Path(error.filename), error) from error
        return found.tolist()

    def contents(self, ids: Collection[str]) -> dict[str, Content]:
        """The contents that the table has under some of its ids, where they are whole."""
        wanted = pa.array(list(ids), pa.string())
        found: dict[str, Content] = {}
        files = self._files() if len(wanted) else []
        try:
            for path in reversed(files):
                if len(found) < len(wanted):
                    found |= _read_contents(path, wanted)
        except FileNotFoundError as error:
            # As in `have`: a compaction has joined files meanwhile.
            if files == self._files():
                raise _damaged(Path(error.filename), error) from error
            return self.contents(ids)
        return found

    def _ask(
        self, files: list[Path], split: SplitIds, asked: np.ndarray[Any, Any], found: Any
    ) -> None:
        """Mark those of the asked places in `found` whose ids the files have."""
        self._forget_all_but(files)
        for path in reversed(files):
            for index, source in enumerate(split.sources):
                places = asked[(split.which[asked] == index) & ~found[asked]]
                wanted = split.numbers[places]
                if len(wanted) and self._may_have(path, source, wanted):
                    found[places] = _is_in(self._numbers(path).get(source), wanted)
            if found[asked].all():
                return

    def _may_have(self, path: Path, source: str, wanted: _Numbers) -> bool:
        if path not in self._bounds:
            self._numbers(path)
        bounds = self._bounds[path].get(source)
        return bounds is not None and bool(((wanted >= bounds[0]) & (wanted <= bounds[1])).any())

    def _numbers(self, path: Path) -> dict[str, _Numbers]:
        """The numbers in a file by source, sorted; kept until there are too many."""
        if path in self._kept:
            self._kept.move_to_end(path)
            return self._kept[path]
        numbers = _read_numbers(path)
        self.files_read += 1
        self._bounds[path] = {each: (int(all_[0]), int(all_[-1])) for each, all_ in numbers.items()}
        self._kept[path] = numbers
        self._bytes_kept += _bytes_of(numbers)
        while self._bytes_kept > _BYTES_KEPT_MAX and len(self._kept) > 1:
            self._bytes_kept -= _bytes_of(self._kept.popitem(last=False)[1])
        return numbers

    def _forget_all_but(self, files: list[Path]) -> None:
        for path in self._bounds.keys() - set(files):
            del self._bounds[path]
            self._bytes_kept -= _bytes_of(self._kept.pop(path, {}))


def _read_numbers(path: Path) -> dict[str, _Numbers]:
    parts: dict[str, list[_Numbers]] = {}
    try:
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=["sequence_id"]):
                for source, _, numbers in split_ids(batch.column(0)).by_source():
                    parts.setdefault(source, []).append(numbers)
    except pa.ArrowException as error:
        raise _damaged(path, error) from error
    return {source: np.sort(np.concatenate(each)) for source, each in parts.items()}


def _read_contents(path: Path, wanted: pa.Array) -> dict[str, Content]:
    found: dict[str, Content] = {}
    try:
        with path.open("rb") as opened, pq.ParquetFile(opened) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=_CONTENT):
                found |= contents_in(batch.filter(pc.is_in(batch.column("sequence_id"), wanted)))
    except pa.ArrowException as error:
        raise _damaged(path, error) from error
    return found


def _damaged(path: Path, error: Exception) -> StoreCorrupt:
    return StoreCorrupt(
        f"{path} is a file of a landed table and cannot be read: {error}; restore it",
        event=0,
        file=str(path),
    )


def _bytes_of(numbers: dict[str, _Numbers]) -> int:
    return sum(each.nbytes for each in numbers.values())


def _is_in(numbers: _Numbers | None, wanted: _Numbers) -> Any:
    if numbers is None:
        return np.zeros(len(wanted), bool)
    at = np.searchsorted(numbers, wanted)
    return numbers[np.minimum(at, len(numbers) - 1)] == wanted


def _within(ranges: tuple[Range, ...], numbers: _Numbers) -> Any:
    if not ranges:
        return np.zeros(len(numbers), bool)
    firsts, lasts = np.array(ranges, np.int64).T
    at = np.searchsorted(firsts, numbers, side="right") - 1
    return (at >= 0) & (numbers <= lasts[np.maximum(at, 0)])


def _joined(ranges: tuple[Range, ...], numbers: _Numbers, most: int) -> tuple[Range, ...]:
    """Ranges that hold the given ones and the numbers: exact, or as many as may be."""
    rising = np.unique(numbers)
    cuts = np.flatnonzero(np.diff(rising) != 1) + 1
    firsts = np.concatenate((rising[:1], rising[cuts]))
    lasts = np.concatenate((rising[cuts - 1], rising[-1:]))
    if ranges:
        before = np.array(ranges, np.int64).T
        firsts, lasts = np.concatenate((before[0], firsts)), np.concatenate((before[1], lasts))
        order = np.argsort(firsts, kind="stable")
        firsts, lasts = firsts[order], np.maximum.accumulate(lasts[order])
    gaps = firsts[1:] - lasts[:-1] - 1
    kept = np.flatnonzero(gaps > 0)
    if len(kept) >= most:
        widest = np.argsort(gaps[kept], kind="stable")[len(kept) - (most - 1) :]
        kept = np.sort(kept[widest])
    firsts = np.concatenate((firsts[:1], firsts[kept + 1]))
    lasts = np.concatenate((lasts[kept], lasts[-1:]))
    return tuple(zip(firsts.tolist(), lasts.tolist(), strict=True))
