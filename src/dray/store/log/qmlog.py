"""QMLog: the cyclic log of facts (S3-14), one fixed file, written in groups.

Theory of operation. The log is endless; its file is a window on it. A group has a position, its
lsn, and lies at file offset lsn modulo the capacity, wrapping around the end of the file if it
must. The writer appends at `head`; everything from `tail` on is kept, because the older of the two
checkpoints may still need it. `StoreCheckpoints.end` moves `tail` when a checkpoint is durable.
Groups of facts leave a reserve free, so that a recovery can always write its opening group.

    file      |ggggg|hhh|.......old or never written.......|ccccccc|dddddd|eee|ff|
                        ^ head                             ^ tail

A group counts only at its own lsn with its checksum right, at the place where the one before ended,
numbering its facts where the one before stopped, in the same epoch or a later one. The
first place where that fails is the end of the log. Why the bytes beyond can be of three kinds, and
how recovery tells them apart, is told in docs/explanation/recovery.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from dray.errors import StoreFull, StorePoisoned
from dray.store.disk import File, ReadableFile
from dray.store.limits import (
    COPIED_BYTES_LITTLE,
    COPIED_BYTES_MAX,
    COPIED_LOG_SHARE,
    LOG_AHEAD_BYTES_MAX,
    LOG_AHEAD_BYTES_MIN,
    LOG_AHEAD_SHARE,
    LOG_RESERVE_SHARE,
    LOG_SCAN_BYTES,
    LOG_WINDOW_BYTES,
    SECTOR_BYTES,
    ZEROS_PIECE_BYTES,
)
from dray.store.log.copies import Copies
from dray.store.log.group import (
    COPIES,
    HEADER_BYTES,
    MAGIC,
    OPENING,
    SEAL,
    DirtyRange,
    Group,
    copies_of,
    decode_header,
    encode,
    facts_of,
    group_bytes,
    group_of,
    intact,
    length_before,
    ranges_of,
    watermark_at,
)

_ZEROS: Final = memoryview(bytes(ZEROS_PIECE_BYTES))


class Suspect(NamedTuple):
    """A group that may lie in the log without its heap bytes: never known to be durable."""

    group: Group
    ranges: list[DirtyRange]


class Chain(NamedTuple):
    """The unbroken run of groups after a checkpoint."""

    start: int
    end: int
    groups: int
    next_fact: int
    epoch: int
    watermark: int
    suspects: tuple[Suspect, ...]
    vouched: tuple[Suspect, ...]
    """Groups before the suspects that only a note outside of the log knows to be durable."""
    copies: Copies
    """Heap bytes that the groups have themselves."""
    heap_file_bytes: int
    """By the last group; 0 if there is none."""
    gap: bool
    """The run ended at a group that is whole but whose facts begin too late."""

    def cut(self) -> Chain:
        """The chain without its last group, which is a suspect (known facts stay known)."""
        last = self.suspects[-1].group
        return self._replace(
            end=last.lsn,
            groups=self.groups - 1,
            next_fact=last.first_fact,
            suspects=self.suspects[:-1],
        )


class LogReader:
    """Looks through QMLog without changing it.

    Groups are mostly small and read in order, so a window of the file is kept in memory; every
    walk begins with a fresh one. A chain that fits into it is not read a second time for its facts.
    """

    def __init__(self, file: ReadableFile, capacity: int) -> None:
        """Read `file`, whose groups were written for `capacity` bytes."""
        self._file = file
        self.capacity = capacity
        self._window = bytearray()
        self._window_offset = 0
        self._followed: list[tuple[Group, bytearray]] = []
        """The first groups of the chain that was followed last, as many as fit into a window."""

    def group_at(self, lsn: int) -> tuple[Group, bytearray] | None:
        """The whole group at `lsn` with its bytes, or None if there is none there."""
        group = decode_header(self._read(lsn, HEADER_BYTES))
        if group is None or group.lsn != lsn or group.capacity != self.capacity:
            return None
        image = self._read(lsn, group.length)
        return (group, image) if intact(group, image) else None

    def chain(
        self, start: int, known_facts: int, epoch: int, *, durable: int = 0, noted: int = 0
    ) -> Chain:
        """Follow the groups from `start`; facts numbered below `known_facts` may be missing.

        Groups below `durable` are known to have been synced with all that they rely on, by a
        checkpoint; those below `noted` by a note that is newer than any group.
        """
        self._window.clear()
        lsn, next_fact, groups, watermark, gap = start, 0, 0, max(start, durable), False
        suspects: deque[tuple[Group, bytearray]] = deque()
        self._followed = []
        heap_file_bytes = 0
        copies = Copies()
        while (found := self.group_at(lsn)) is not None:
            group, _ = found
            if group.epoch < epoch or group.first_fact < next_fact:
                break
            if group.first_fact > max(next_fact, known_facts):
                gap = True
                break
            watermark = max(watermark, group.watermark)
            heap_file_bytes = group.heap_file_bytes
            suspects.append(found)
            for copied, offset in copies_of(*found):
                copies.add(copied, lsn + offset)
            while suspects and suspects[0][0].lsn < watermark:
                suspects.popleft()
            next_fact = group.first_fact + group.facts
            lsn, epoch, groups = group.end, group.epoch, groups + 1
            if lsn - start <= LOG_WINDOW_BYTES:
                self._followed.append(found)
        next_fact = max(next_fact, known_facts)
        newest = [Suspect(group, _in_doubt(group, image)) for group, image in suspects]
        vouched = tuple(each for each in newest if each.group.lsn < noted)
        doubted = tuple(newest[len(vouched) :])
        return Chain(
            start,
            lsn,
            groups,
            next_fact,
            epoch,
            watermark,
            suspects=doubted,
            vouched=vouched,
            copies=copies,
            heap_file_bytes=heap_file_bytes,
            gap=gap,
        )

    def is_unfinished_at(self, chain: Chain) -> bool:
        """Whether a group of facts was begun where `chain` ends, in its epoch or a later one."""
        group = decode_header(self._read(chain.end, HEADER_BYTES))
        return (
            group is not None
            and group.facts > 0
            and (group.lsn, group.capacity) == (chain.end, self.capacity)
            and group.epoch >= chain.epoch
            and group.first_fact >= chain.next_fact
            and self.group_at(chain.end) is None
        )

    def facts(self, chain: Chain, first: int) -> Iterator[bytes]:
        """The facts of `chain` in order, from fact number `first` on."""
        for group, image in self._groups(chain):
            known = max(0, first - group.first_fact)
            for number, fact in enumerate(facts_of(group, image)):
                if number >= known:
                    yield fact

    def copied(self, lsn: int, length: int) -> bytearray:
        """The bytes of a copy that begins at `lsn`."""
        return self._read_around(lsn % self.capacity, length)

    def _groups(self, chain: Chain) -> Iterator[tuple[Group, bytearray]]:
        """The groups of `chain`, which may have been cut since it was followed."""
        lsn = chain.start
        for found in self._followed:
            if found[0].lsn == lsn < chain.end:
                yield found
                lsn = found[0].end
        self._window.clear()
        while lsn < chain.end:
            again = self.group_at(lsn)
            assert again is not None, "the chain was followed before"
            yield again
            lsn = again[0].end

    def witness(self, lsn: int) -> Group | None:
        """A later group that knew the bytes at `lsn` to be durable: then they are damaged."""
        for group in self._headers(beyond=lsn):
            if self.group_at(group.lsn):
                return group
        return None

    def is_cut_off_at(self, lsn: int) -> bool:
        """Whether the file is too short to hold the group at `lsn`, if there was one."""
        group = decode_header(self._read(lsn, HEADER_BYTES))
        length = group.length if group is not None and group.lsn == lsn else HEADER_BYTES
        return lsn % self.capacity + length > self._file.size()

    def is_blank(self) -> bool:
        """Whether there is no whole group anywhere, of whatever lsn."""
        return not any(self.group_at(group.lsn) for group in self._headers())

    def _headers(self, *, beyond: int = -1) -> Iterator[Group]:
        """Candidates for group headers whose watermark is beyond an lsn."""
        self._window.clear()
        piece = bytearray(min(LOG_SCAN_BYTES, self.capacity))
        for base in range(0, self.capacity, LOG_SCAN_BYTES):
            got = self._file.read_into(memoryview(piece), base)
            for at in _sectors_with_magic(piece, got):
                group = decode_header(piece, at) if watermark_at(piece, at) > beyond else None
                if group is not None and group.lsn % self.capacity == base + at:
                    yield group

    def _read(self, lsn: int, length: int) -> bytearray:
        offset = lsn % self.capacity
        start = offset - self._window_offset
        if 0 <= start <= len(self._window) - length:
            return self._window[start : start + length]
        size = min(LOG_WINDOW_BYTES, self.capacity - offset)
        if length > size:
            return self._read_around(offset, length)
        self._window = self._read_around(offset, size)
        self._window_offset = offset
        return self._window[:length]

    def _read_around(self, offset: int, length: int) -> bytearray:
        image = bytearray(length)
        view = memoryview(image)
        first = min(length, self.capacity - offset)
        self._file.read_into(view[:first], offset)
        if first < length:
            self._file.read_into(view[first:], 0)
        return image


def _in_doubt(group: Group, image: bytearray) -> list[DirtyRange]:
    """The heap bytes that a group needs and does not have itself."""
    return [] if group.flags & COPIES else ranges_of(group, image)


def _sectors_with_magic(piece: bytearray, length: int) -> Iterator[int]:
    # The first byte of each sector that can hold a header. A search of all bytes takes 35 ms.
    firsts = piece[: max(length - HEADER_BYTES + 1, 0) : SECTOR_BYTES]
    sector = firsts.find(MAGIC[0])
    while sector >= 0:
        at = sector * SECTOR_BYTES
        if piece.startswith(MAGIC, at):
            yield at
        sector = firsts.find(MAGIC[0], sector + 1)


class Log:
    """Appends groups to QMLog."""

    def __init__(
        self, file: File, *, capacity: int, head: int, tail: int, next_fact: int, epoch: int
    ) -> None:
        """Go on at `head` with fact number `next_fact` in `epoch`, keeping all from `tail`."""
        self.file = file
        self.capacity = capacity
        self.head = head
        self.tail = tail
        self.durable = head
        self.epoch = epoch
        self.heap_file_bytes = 0
        self.next_fact = next_fact
        self.bytes_written = 0
        self.stated_bytes = 0
        """Bytes of all facts put here, in groups or not."""
        self.pending = self.pending_bytes = 0
        """Facts that wait for the next group, and the bytes that they take."""
        self._pending = bytearray()
        self._reserve = capacity // LOG_RESERVE_SHARE
        self._copied_most = min(COPIED_BYTES_MAX, capacity // COPIED_LOG_SHARE)
        self._copied_little = min(COPIED_BYTES_LITTLE, self._copied_most)
        ahead = max(capacity // LOG_AHEAD_SHARE, LOG_AHEAD_BYTES_MIN)
        self._ahead = min(ahead, LOG_AHEAD_BYTES_MAX)
        # Bytes of the file below were written before: all of them after the first way through.
        self._used = min(head, capacity)

    @property
    def facts_appended(self) -> int:
        """Facts since the store was made, with those not yet in a group."""
        return self.next_fact + self.pending

    def append(self, fact: bytes) -> int:
        """Put a fact behind the others that wait; gives the bytes that they take."""
        self._pending += length_before(len(fact))
        self._pending += fact
        self.pending += 1
        self.pending_bytes = waiting = len(self._pending)
        self.stated_bytes += len(fact)
        return waiting

    def fits(self, ranges: int, copied: int = 0) -> bool:
        """Whether the waiting facts, so many dirty ranges and bytes of copies find room now."""
        needed = group_bytes(self.pending_bytes, ranges, copied)
        return needed <= self.tail + self.capacity - self._reserve - self.head

    def takes_copies(self, ranges: Sequence[DirtyRange], *, little: bool) -> bool:
        """Whether the next group is to have the bytes of these dirty ranges, with room for them.

        Only if they are few; with `little`, very few.
        """
        size = 0
        for _, start, stop in ranges:
            size += stop - start
        most = self._copied_little if little else self._copied_most
        return 0 < size <= most and self.fits(len(ranges), size)

    def could_fit(self, ranges: int) -> bool:
        """Whether they would find room in an empty log."""
        return group_bytes(self.pending_bytes, ranges) <= self.capacity - self._reserve

    def group_bytes_max(self, ranges: int) -> int:
        """Bytes of facts, with their lengths, that an empty log could take in one group."""
        return self.capacity - self._reserve - group_bytes(0, ranges)

    def write_group(self, ranges: Sequence[DirtyRange], copies: bytes = b"") -> None:
        """Write the waiting facts as one group, with the bytes of `ranges` or without them.

        Raises StorePoisoned.
        """
        self._write(ranges, 0, copies)
        self._pending.clear()
        self.pending = self.pending_bytes = 0

    def write_mark(self, flag: int) -> bool:
        """Write a group of no facts, if there is room: an opening or a seal."""
        assert flag in {OPENING, SEAL}
        assert not self.pending, "marks stand between groups of facts"
        if group_bytes(0, 0) > self.tail + self.capacity - self.head:
            return False
        self._write((), flag)
        return True

    def _write(self, ranges: Sequence[DirtyRange], flags: int, copies: bytes = b"") -> None:
        # In the order of its fields; encoding fills in the length.
        group = group_of(
            (
                self.head,
                self.durable,
                self.next_fact,
                self.capacity,
                self.epoch,
                self.pending,
                len(ranges),
                0,
                flags,
                self.heap_file_bytes,
            )
        )
        image = encode(group, ranges, self._pending, copies)
        offset = self.head % self.capacity
        first = self.capacity - offset
        try:
            self.file.write(memoryview(image)[:first], offset)
            if len(image) > first:
                self.file.write(image[first:], 0)
            if offset + len(image) > self._used:
                self._write_ahead(offset + len(image))
        except StoreFull as error:
            # The log was allocated whole; a file system that has no room for it now cannot be
            # trusted to have kept what was written before.
            raise StorePoisoned(f"the log could not be written: {error}") from error
        self.head += len(image)
        self.next_fact += group.facts
        self.bytes_written += len(image)

    def _write_ahead(self, stop: int) -> None:
        """Put zeros where the next groups go, if nothing was ever written there.

        The bytes there never meant anything; see `LOG_AHEAD_SHARE` for their use.
        """
        self._used = min(stop + self._ahead, self.capacity)
        for at in range(stop, self._used, ZEROS_PIECE_BYTES):
            self.file.write(_ZEROS[: self._used - at], at)
