"""Survey of the storage folder before recovery changes it, and the state it amounts to.

Each checkpoint file, map and the log is looked at by itself (`look`); what the pairs are worth
together is put to the table in `decisions`, which starts the store or refuses (`survey`).
"""

from __future__ import annotations

from contextlib import closing
from typing import Final, NamedTuple

from dray.store.decisions import (
    LOG_LOST,
    LOG_NAME,
    NOT_A_BIRTH,
    Act,
    DecisionRow,
    FoundState,
    LogState,
    Pair,
    decide,
    event_of,
    refusal,
)
from dray.store.disk import ReadableDisk, ReadableFile
from dray.store.heap.heap import numbers_of
from dray.store.heap.maps import MAP_NAMES
from dray.store.log.checkpoint import (
    NAMES,
    ORIGIN,
    PAIRS,
    SEQUENCES,
    TRANSACTIONS,
    CheckpointState,
    Mark,
    examine,
    is_cut,
)
from dray.store.log.group import HEADER_BYTES, decode_header
from dray.store.log.qmlog import LogReader

_UNWRITTEN: Final = {CheckpointState.ABSENT, CheckpointState.UNUSED}
_UNUSABLE: Final = {CheckpointState.DAMAGED, CheckpointState.UNFINISHED}


class LogSight(NamedTuple):
    """The state of QMLog."""

    state: LogState
    capacity: int = 0
    is_short: bool = False

    @property
    def has_groups(self) -> bool:
        """Whether the first group was written, before which each checkpoint file got a header."""
        return self.state in {LogState.ORIGIN, LogState.LATER}


class Sight(NamedTuple):
    """The state of each file by itself, before any conclusion."""

    states: dict[str, CheckpointState]
    marks: tuple[Mark, ...]
    missing: tuple[str, ...]
    cut: tuple[str, ...]
    """Whole checkpoint files that were cut off behind their content; maps and QMLog if short."""
    unheaded: tuple[str, ...]
    """Checkpoint files that are missing or have no header."""
    log: LogSight

    @property
    def damaged(self) -> list[str]:
        """Checkpoint files that are damaged."""
        return self._in_state(CheckpointState.DAMAGED)

    @property
    def unfinished(self) -> list[str]:
        """Checkpoint files that a kill or a power failure left while they were written."""
        return self._in_state(CheckpointState.UNFINISHED)

    def _in_state(self, state: CheckpointState) -> list[str]:
        return [name for name, each in self.states.items() if each is state]

    def worth(self, pair: tuple[str, ...]) -> Pair:
        """The state of a checkpoint pair."""
        states = {self.states[name] for name in pair}
        gone = [name for name in pair if name in self.missing]
        if CheckpointState.VALID in states:
            return Pair.USABLE
        if not states & _UNUSABLE:
            return Pair.GONE if len(gone) == len(pair) else Pair.NONE
        return Pair.TORN if states & _UNWRITTEN and not gone else Pair.RUINED


class Survey(NamedTuple):
    """The survey, made before anything is changed."""

    row: DecisionRow
    seen: Sight
    heap_files: frozenset[int]
    rebuilt: bool = False
    """Whether it is refused unless the operator asks for a rebuild."""

    def whole(self, pair: tuple[str, ...]) -> list[Mark]:
        """The whole files of a pair, the newest first."""
        mine = (mark for mark in self.seen.marks if mark.name in pair)
        return sorted(mine, key=lambda mark: -mark.generation)

    def chosen(self) -> dict[tuple[str, ...], Mark]:
        """The file of each pair that is used: the newest two that were written together.

        A crash between the two leaves one pair a generation ahead, and what only its snapshot had
        nobody was told; only where damage has left no two of a generation, the newest of each.
        """
        if self.row.act is not Act.REPLAY_AFTER:
            return dict.fromkeys(PAIRS, ORIGIN)
        whole = {pair: self.whole(pair) for pair in PAIRS}
        for mark in whole[TRANSACTIONS]:
            for other in whole[SEQUENCES]:
                if mark.generation == other.generation:
                    return {TRANSACTIONS: mark, SEQUENCES: other}
        return {pair: marks[0] for pair, marks in whole.items()}


def look(disk: ReadableDisk) -> Sight:
    """Look at checkpoint files, maps and log. Raises StoreCorrupt for what is no file."""
    _check_places(disk)
    examined = {name: examine(disk, name) for name in NAMES}
    marks = {name: mark for name, (_, mark) in examined.items() if mark is not None}
    states = {name: state for name, (state, _) in examined.items()}
    unheaded = tuple(name for name in NAMES if states[name] is CheckpointState.ABSENT)
    log = _look_at_log(disk, next((mark.capacity for mark in marks.values()), 0))
    if not marks and log.state in {LogState.ABSENT, LogState.BLANK}:
        return Sight(states, (), missing=(), cut=(), unheaded=unheaded, log=log)
    # All of them were made, and durably, before the first group was written.
    missing = tuple(name for name in (*NAMES, *MAP_NAMES) if not disk.exists(name))
    short = [
        name
        for name in (*NAMES, *MAP_NAMES)
        if name not in missing and is_cut(disk, name, marks.get(name))
    ]
    for name, state in states.items():
        lost_its_header = log.has_groups and state is CheckpointState.ABSENT
        if name not in missing and state in _UNWRITTEN and (lost_its_header or name in short):
            states[name] = CheckpointState.DAMAGED
    cut = (*[name for name in short if name not in NAMES or name in marks],)
    cut += (LOG_NAME,) * log.is_short
    return Sight(states, tuple(marks.values()), missing, cut, unheaded, log)


def survey(disk: ReadableDisk, *, rebuild: bool = False) -> Survey:
    """Look at every file of the store. Raises StoreCorrupt if the row found says so.

    With `rebuild` a log that has everything stands in for a checkpoint pair that is gone.
    """
    seen = look(disk)
    heap_files = frozenset(numbers_of(disk.names()))
    pairs = seen.worth(TRANSACTIONS), seen.worth(SEQUENCES)
    finding = FoundState(*pairs, seen.log.state, bool(heap_files))
    row = decide(finding, rebuild=rebuild)
    if row.act is Act.REFUSE:
        raise refusal(row.event, row.file, row.why)
    if row.act is Act.FRESH and disk.had_store():
        # The rest looks like a birth that a crash ended; but the birth had come to its end.
        raise refusal(LOG_LOST, LOG_NAME, NOT_A_BIRTH)
    return Survey(row, seen, heap_files, rebuilt=decide(finding).act is Act.REFUSE)


def _check_places(disk: ReadableDisk) -> None:
    """Raise StoreCorrupt for a folder or the like in the place of a file of the store."""
    for name in disk.not_files():
        event = event_of(name)
        if event:
            why = "it is a folder or the like, not a file; move it away and start again"
            raise refusal(event, name, why)


def _look_at_log(disk: ReadableDisk, capacity: int) -> LogSight:
    if not disk.exists(LOG_NAME):
        return LogSight(LogState.ABSENT)
    with closing(disk.open(LOG_NAME)) as file:
        size = file.size()
        capacity = capacity or _capacity_at_origin(file) or size
        reader = LogReader(file, capacity)
        short = size < capacity
        if not capacity or reader.is_blank():
            return LogSight(LogState.BLANK, capacity, short)
        return LogSight(LogState.ORIGIN if reader.group_at(0) else LogState.LATER, capacity, short)


def _capacity_at_origin(file: ReadableFile) -> int:
    """The capacity by the very first group; 0 if that is damaged, for then so may the number be."""
    header = bytearray(HEADER_BYTES)
    file.read_into(memoryview(header), 0)
    group = decode_header(header)
    if group is None or group.length > file.size():
        return 0
    return group.capacity if LogReader(file, group.capacity).group_at(0) else 0
