"""Recovery: the store's state rebuilt from checkpoints and log, and what had to be left aside.

`survey` and `decisions` say whether to start at all and which checkpoint files go together. Here it
is found out where the log ends, which groups at its end must be cut because their payload never
arrived, and which live extents cannot be read. Those are put into quarantine, by name: nothing is
given up because it could not be read. docs/explanation/recovery.md tells why all this is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from dray.errors import StoreCorrupt
from dray.model.words import counted
from dray.store.decisions import (
    BRING_IT_BACK,
    HALVES_APART,
    LOG_DAMAGED,
    LOG_NAME,
    LOST_EVENTS,
    Act,
    LogState,
    refusal,
)
from dray.store.disk import MESSAGE_FILE_UNREADABLE, ReadableDisk, ReadableFile
from dray.store.heap.heap import Extent, Occupancy, file_name
from dray.store.heap.maps import Disagreement, compare, read_map
from dray.store.heap.witness import NotedEnd, read_end
from dray.store.limits import LOG_SCAN_BYTES
from dray.store.log.checkpoint import NAMES, SEQUENCES, TRANSACTIONS, Snapshots, read_snapshot
from dray.store.log.group import DirtyRange
from dray.store.log.qmlog import Chain, LogReader
from dray.store.recovery.survey import Survey


class History(NamedTuple):
    """The data from which the owner rebuilds its state: two snapshots, and the facts since.

    The snapshots may be of different age. The first `in_state` of the facts are in the state's
    snapshot already, the first `in_sequences` in that of the incoming sequences.
    """

    state: bytes | None
    sequences: bytes | None
    facts: Iterator[bytes]
    in_state: int = 0
    in_sequences: int = 0

    @classmethod
    def of(cls, snapshots: Snapshots) -> History:
        """Nothing but snapshots of one moment."""
        return cls(b"".join(snapshots.state), b"".join(snapshots.sequences), iter(()))


Load: TypeAlias = Callable[[History], Iterable[tuple[Extent, int]]]


_IN_DOUBT: Final = (
    "it is in doubt whether its sync had ended: a power failure before the end leaves this, and"
    " then nobody was told of the commit; damage after the end leaves the same; restore a backup"
    " if a commit is missing that somebody was told of"
)


class Loss(Enum):
    """Why the store that came back may have less than the one before."""

    UNREADABLE = "the state has messages whose bytes cannot be read"
    CUT_OFF = "the newest groups were cut off the log; nobody was told of them, or they are damaged"
    REBUILT = "checkpoints are gone, and the operator had the state rebuilt from the log"


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """The findings and actions of recovery, for the log of the daemon and for tests."""

    act: Act
    checkpoint: str
    """The file of MQTrans that was used, or nothing."""
    sequences: str
    """The file of MQInSeqs that was used, or nothing."""
    damaged: tuple[str, ...]
    """Files that are damaged but were not needed."""
    missing: tuple[str, ...]
    """Checkpoint files and maps that are gone and were not needed."""
    cut: tuple[str, ...]
    """Files that are shorter than they were and have all that counts."""
    groups: int
    facts: int
    """Facts replayed after the checkpoint."""
    cut_groups: int
    """Whole groups that were cut, because heap bytes they speak of had not reached the disk."""
    verified_extents: int
    epoch: int
    quarantined: tuple[Extent, ...] = ()
    """Live extents that cannot be read: their file is missing, cut off or unreadable."""
    spoiled: tuple[Extent, ...] = ()
    """Live extents of the newest groups that were synced and do not fit their checksums."""
    unfinished: bool = False
    """Whether a group that is not whole was begun at the end of the log."""
    disagreements: tuple[str, ...] = ()
    """Differences between the map of live blocks and the state, a sentence each."""
    rebuilt: bool = False
    """Whether it started only because the operator asked for a rebuild."""

    @property
    def lost(self) -> tuple[Loss, ...]:
        """Why this store may have less than it had; empty if it has everything for certain."""
        found = {
            Loss.UNREADABLE: bool(self.quarantined or self.spoiled),
            Loss.CUT_OFF: self.cut_groups > 0 or self.unfinished,
            Loss.REBUILT: self.rebuilt,
        }
        return tuple(loss for loss, is_so in found.items() if is_so)

    def notices(self) -> list[str]:
        """Sentences for the operator."""
        found = [f"{name} is damaged and was not needed" for name in self.damaged]
        found += [f"{name} is missing and was not needed" for name in self.missing]
        found += [f"{name} was cut off, but has everything that counts" for name in self.cut]
        found += [
            f"event {MESSAGE_FILE_UNREADABLE}: {counted(count)} in {name} cannot be read and"
            " will be kept unread; bring the file back and start again, restore a backup, or purge"
            " their queue to give them up"
            for name, count in _by_file(self.quarantined)
        ]
        found += [
            f"event {MESSAGE_FILE_UNREADABLE}: {counted(count)} of the newest in {name} went bad"
            " after the sync; a receive that meets one moves it to quarantine"
            for name, count in _by_file(self.spoiled)
        ]
        in_doubt = doubts(self.cut_groups, unfinished=self.unfinished)
        found += [f"{LOG_NAME}: {sentence}" for sentence in in_doubt]
        return [*found, *self.disagreements]


def doubts(cut_groups: int, *, unfinished: bool) -> list[str]:
    """Sentences about the end of the log, if something was cut off there."""
    found = []
    if cut_groups:
        groups = "the newest group" if cut_groups == 1 else f"the newest {cut_groups} groups"
        why = "because payload that belongs to it is not in the message files"
        found.append(f"{groups} of facts cannot be used, {why}; {_IN_DOUBT}")
    if unfinished:
        found.append(f"only a part of the newest group of facts is there; {_IN_DOUBT}")
    return found


class Replay:
    """Finds the end of the log and has the owner's state rebuilt up to there."""

    def __init__(self, disk: ReadableDisk, found: Survey, log: ReadableFile, capacity: int) -> None:
        """Replay QMLog of `capacity` bytes, open as `log`, according to `found`."""
        self._disk = disk
        self._found = found
        self._reader = LogReader(log, capacity)
        self.used = found.chosen()
        self.mark = min(self.used.values(), key=lambda mark: (mark.lsn, mark.facts))
        """The position at which the replay begins: the older of the two."""
        self.facts = max(mark.facts for mark in self.used.values())
        """So many facts are in one snapshot at least."""
        self.verified = 0
        self.cuts = 0
        self.occupied: dict[int, Occupancy] = {}
        self.quarantined: list[Extent] = []
        self.spoiled: list[Extent] = []
        """Live extents that do not fit their checksums, although they were durable."""
        self._lacking: list[tuple[Extent, int]] = []
        """Live extents that the log has copies of and the heap has not, each with its lsn."""
        self._misfitting: set[Extent] = set()
        """Extents, live or not, that do not fit their checksums."""
        self.unfinished = False
        """Whether a group that is not whole was begun at the end of the log."""
        self.disagreements: list[Disagreement] = []
        self.damaged = list(found.seen.damaged)

    def follow(self) -> Chain:
        """The end of the log. Raises StoreCorrupt if something durable is missing from it."""
        mark = self.mark
        durable = max([mark.lsn, *(each.lsn for each in self._found.seen.marks)])
        fresh = self._found.row.act is Act.FRESH
        noted = NotedEnd("", 0) if fresh else read_end(self._disk)
        chain = self._reader.chain(
            mark.lsn, mark.facts, mark.epoch, durable=durable, noted=noted.lsn
        )
        if chain.gap:
            raise self._facts_are_missing()
        if LOG_NAME in self._found.seen.cut and self._reader.is_cut_off_at(chain.end):
            raise refusal(
                LOG_DAMAGED,
                LOG_NAME,
                f"it was cut off at its newest groups; {BRING_IT_BACK}",
            )
        # A log that was just made has no group, and to search all of it takes 50 ms.
        is_new = self._found.seen.log.state is LogState.ABSENT
        witness = None if is_new else self._reader.witness(chain.end)
        if witness is not None or (chain.end < durable and not fresh):
            at = chain.end % self._reader.capacity
            raise refusal(
                LOG_DAMAGED,
                LOG_NAME,
                f"the group at byte {at} is damaged, and a later group says that it was durable;"
                f" {BRING_IT_BACK}",
            )
        if chain.end < noted.lsn:
            raise self._end_is_missing(chain, noted)
        if chain.next_fact < self.facts:
            raise self._facts_are_missing()
        self.unfinished = not fresh and self._reader.is_unfinished_at(chain)
        return chain

    def _end_is_missing(self, chain: Chain, noted: NotedEnd) -> StoreCorrupt:
        """Why a log is refused that was durable beyond its end."""
        at, end = (lsn % self._reader.capacity for lsn in (chain.end, noted.lsn))
        return refusal(
            LOG_DAMAGED,
            LOG_NAME,
            f"nothing whole is at byte {at}, and by {noted.file} it was durable up to byte {end}:"
            f" it is damaged, or older than the other files; {BRING_IT_BACK}",
        )

    def _facts_are_missing(self) -> StoreCorrupt:
        why = f"the facts that it alone had are missing; {BRING_IT_BACK}"
        damaged = [name for name in self._found.seen.damaged if name in NAMES]
        if damaged:
            return refusal(LOST_EVENTS[damaged[0]], damaged[0], why)
        if len({mark.generation for mark in self.used.values()}) > 1:
            files = " and ".join(mark.name for mark in self.used.values())
            return refusal(HALVES_APART, files, "they were not written together, and " + why)
        return refusal(LOG_DAMAGED, LOG_NAME, why)

    def run(self, load: Load) -> Chain:
        """Call `load`, cutting suspects from the end until every heap byte they claim is there."""
        chain = self.follow()
        snapshots = [
            read_snapshot(self._disk, self.used[pair]) if self.used[pair].name else None
            for pair in (TRANSACTIONS, SEQUENCES)
        ]
        whole = chain
        while True:
            to_verify = self._take_stock(chain, load(self._history(chain, snapshots)))
            misfits = self._misfits(to_verify, chain)
            if not misfits:
                break
            if chain.suspects:
                chain = chain.cut()
            else:
                # All groups that are left were durable, so these bytes did fit once. No group has
                # to be cut for them.
                self._misfitting.update(misfits)
                chain = whole
        self.cuts = whole.groups - chain.groups
        if chain.next_fact == self.used[TRANSACTIONS].facts:
            self._compare_with_map(lambda: load(self._history(chain, snapshots)))
        return chain

    def check_heap(self) -> None:
        """Raise StoreCorrupt if not one message file is there in which live messages lie.

        That is no accident of a file but a store without its heap.
        """
        if self.occupied and not self._found.heap_files.intersection(self.occupied):
            name = file_name(min(self.occupied))
            sentence = (
                f"event {MESSAGE_FILE_UNREADABLE}: {name} is missing, like every other message"
                " file; bring them back, or restore a backup"
            )
            raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=name)

    def report(self, chain: Chain, epoch: int) -> RecoveryReport:
        """The findings and actions."""
        return RecoveryReport(
            act=self._found.row.act,
            checkpoint=self.used[TRANSACTIONS].name,
            sequences=self.used[SEQUENCES].name,
            damaged=tuple(self.damaged),
            missing=self._found.seen.missing,
            cut=self._found.seen.cut,
            groups=chain.groups,
            facts=chain.next_fact - self.mark.facts,
            cut_groups=self.cuts,
            verified_extents=self.verified,
            epoch=epoch,
            quarantined=tuple(self.quarantined),
            spoiled=tuple(self.spoiled),
            unfinished=self.unfinished,
            disagreements=tuple(map(str, self.disagreements)),
            rebuilt=self._found.rebuilt,
        )

    def _history(self, chain: Chain, snapshots: list[bytes | None]) -> History:
        first = self.mark.facts
        state, sequences = snapshots
        return History(
            state,
            sequences,
            self._reader.facts(chain, first),
            self.used[TRANSACTIONS].facts - first,
            self.used[SEQUENCES].facts - first,
        )

    def _take_stock(
        self, chain: Chain, live: Iterable[tuple[Extent, int]]
    ) -> list[tuple[Extent, int]]:
        """Count what is live in each file; give what is to be verified, note what is not there."""
        doubted: dict[int, list[DirtyRange]] = {}
        for group in (*chain.vouched, *chain.suspects):
            for each in group.ranges:
                doubted.setdefault(each.file, []).append(each)
        stock: dict[int, Occupancy] = {}
        self.quarantined, self.spoiled = [], []
        to_verify = []
        copies = chain.copies
        # Neighbours are counted in one piece: mostly they come in the order in which they lie.
        run_file, run_start, run_stop = -1, 0, 0
        size, ranges, is_copied = 0, None, False
        for extent, crc in live:
            file, offset, length = extent
            if not length:
                continue
            stop = offset + length
            if file != run_file or offset != run_stop:
                _count(stock, Extent(run_file, run_start, run_stop - run_start))
                if file != run_file:
                    size, ranges = self._size_in(stock, file), doubted.get(file)
                    is_copied = file in copies.files
                run_file, run_start = file, offset
            run_stop = stop
            is_new = (
                ranges and any(offset < each.stop and each.start < stop for each in ranges)
            ) or (is_copied and copies.lsn_of(DirtyRange(file, offset, stop)) is not None)
            if is_new and extent not in self._misfitting:
                to_verify.append((extent, crc))
            elif stop > size:
                self.quarantined.append(extent)
            elif is_new:
                self.spoiled.append(extent)
        _count(stock, Extent(run_file, run_start, run_stop - run_start))
        self.occupied = stock
        return to_verify

    def _size_in(self, stock: dict[int, Occupancy], file: int) -> int:
        """The size of a file that is in `stock` from now on; 0 if it is missing."""
        if file not in stock:
            stock[file] = Occupancy(size=self._size_of(file))
        return stock[file].size or 0

    def _size_of(self, number: int) -> int | None:
        if number not in self._found.heap_files:
            return None
        with closing(self._disk.open(file_name(number))) as file:
            return file.size()

    def _misfits(self, to_verify: list[tuple[Extent, int]], chain: Chain) -> list[Extent]:
        """The live extents of the newest groups that fail their check, in the heap and the log."""
        to_verify.sort()
        self._lacking = []
        wrong = [(extent, crc) for extent, crc in to_verify if not self._is_intact(extent, crc)]
        return [extent for extent, crc in wrong if not self._is_in_log(extent, crc, chain)]

    def _is_in_log(self, extent: Extent, crc: int, chain: Chain) -> bool:
        """Whether the log has a copy of the bytes, and the heap file has room for them."""
        stop = extent.offset + extent.length
        lsn = chain.copies.lsn_of(DirtyRange(extent.file, extent.offset, stop))
        if lsn is None or (self._size_of(extent.file) or 0) < stop:
            return False
        if crc32c(self._reader.copied(lsn, extent.length)) != crc:
            return False
        self._lacking.append((extent, lsn))
        return True

    def lacking(self) -> Iterator[tuple[Extent, bytes]]:
        """Live extents whose bytes only the log has, in their order, each with its bytes."""
        for extent, lsn in self._lacking:
            yield extent, bytes(self._reader.copied(lsn, extent.length))

    def _is_intact(self, extent: Extent, crc: int) -> bool:
        """Whether the bytes are as they should be; those that the disk cannot read stay aside."""
        # A file made for a suspect may have lost its very name.
        if extent.file not in self._found.heap_files:
            return False
        self.verified += 1
        file = self._disk.open(file_name(extent.file))
        try:
            return _checksum(file, extent) == crc
        except StoreCorrupt:
            self.quarantined.append(extent)
            return True
        finally:
            file.close()

    def _compare_with_map(self, again: Callable[[], Iterable[tuple[Extent, int]]]) -> None:
        """Hold the map of live blocks against the state, if it is of the same moment."""
        mark = self.used[TRANSACTIONS]
        if not mark.name:
            return
        found = read_map(self._disk, mark.generation)
        if found.blocks is None:
            self.damaged.append(found.name)
            return
        live = {file: stock.blocks.bits() for file, stock in self.occupied.items()}
        self.disagreements = compare(found.name, found.blocks, live)
        if not self.disagreements:
            return
        aside = set(self.quarantined)
        for extent, crc in again():
            doubted = any(each.concerns(extent) for each in self.disagreements)
            if extent not in aside and doubted and not self._is_intact(extent, crc):
                self.quarantined.append(extent)


def _count(stock: dict[int, Occupancy], run: Extent) -> None:
    if run.length:
        stock[run.file].add(run)


def _by_file(extents: Iterable[Extent]) -> list[tuple[str, int]]:
    """The number in each file, by its name."""
    return sorted(Counter(file_name(extent.file) for extent in extents).items())


def _checksum(file: ReadableFile, extent: Extent) -> int:
    piece = memoryview(bytearray(min(extent.length, LOG_SCAN_BYTES)))
    crc = 0
    for done in range(0, extent.length, LOG_SCAN_BYTES):
        view = piece[: min(len(piece), extent.length - done)]
        got = file.read_into(view, extent.offset + done)
        crc = crc32c(view[:got], crc)
    return crc
