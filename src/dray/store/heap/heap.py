"""Heap files p0000001.mq, j0000001.mq, r0000001.mq...: where payload bytes lie (S3-10 to S3-13).

Theory of operation. A heap file is 4 MiB of payload without any header: what its bytes mean is
said by facts in the log. Each kind has its own files, shared by all queues. A few files are open
and take new extents at a moving position; the one whose room fits best takes the next. A file that
nothing live is left in is free and is recycled, lowest number first, because writing into blocks
that are already allocated is ten times faster than allocating them. Bytes are written with pwrite
and never through a map: mapped pages would count as this process's memory.

    p0000007.mq   |#### live ####|.. dead ..|## live ##|#### not yet durable ####|     room     |
                                                       ^ dirty_from              ^ position

When bytes may be overwritten is the whole safety of it. An extent counts as live until the fact
that released it is durable, not merely written: a crash before that brings the extent back, and
its bytes must still be there. An extent that no durable fact ever named may be reused at once.

Each file counts its writes. A sync captures the counts and reports them back when it has ended, so
that writes which arrived meanwhile stay dirty; a file that is dirty or captured keeps its
descriptor (`descriptors`).

Express files are like the others but lie in memory, up to a budget; beyond it the oldest is written
to its r file, never synced. They are never dirty and are gone after a restart (S3-11).
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from dray.errors import StoreCorrupt, StoreFull
from dray.store.disk import Disk, File, ReadableBuffer
from dray.store.heap.descriptors import Descriptors
from dray.store.heap.empty_files import EmptyFiles
from dray.store.heap.heap_file import Capture, Extent, HeapFile, Occupancy, missing_file, short_file
from dray.store.heap.heap_pool import HeapPool
from dray.store.kinds import Kind, express_files, file_name, numbers_of
from dray.store.limits import (
    EXPRESS_BYTES,
    FLUSH_SHARE,
    HEAP_FREE_FILES,
    HEAP_HANDED_OUT,
    HEAP_OPEN_FILES,
)
from dray.store.log.group import DirtyRange, range_of

__all__ = ["Capture", "Extent", "Heap", "Occupancy", "file_name", "numbers_of"]

MESSAGE_FILE_NOT_MADE: Final = 2085


class Heap:
    """Allocates, writes and reads extents; knows nothing of facts."""

    def __init__(self, disk: Disk, file_bytes: int, *, express_bytes: int = EXPRESS_BYTES) -> None:
        """Keep files of `file_bytes` on `disk`, and `express_bytes` in memory."""
        self._disk = disk
        self.file_bytes = file_bytes
        self.bytes_written = 0
        self.live_bytes = 0
        # Names are durable up to here when the two are equal.
        self.names_made = 0
        self.names_synced = 0
        self._express_bytes = express_bytes
        self._files: dict[int, HeapFile] = {}
        self._pools = {kind: HeapPool(kind) for kind in Kind}
        self._handed_out = 0
        self.dirty: dict[int, HeapFile] = {}
        """Files with bytes that no ended sync covers; a group names at most so many ranges."""
        self._descriptors = Descriptors(disk, lambda capture: self.captured([capture]))
        self._empty = EmptyFiles(disk, self._descriptors, self._files, self._pools)
        # Express files in memory, the oldest first, and what they take.
        self._in_memory: OrderedDict[int, HeapFile] = OrderedDict()
        self._memory_bytes = 0

    @property
    def express_memory(self) -> tuple[int, int]:
        """The bytes of express messages that may be in memory, and those that are."""
        return self._express_bytes, self._memory_bytes

    @property
    def files(self) -> int:
        """Heap files that there are, of all kinds."""
        return len(self._files)

    @property
    def free_files(self) -> int:
        """Recoverable heap files that wait to be recycled."""
        return len(self._pools[Kind.RECOVERABLE].free)

    @property
    def empty_files(self) -> int:
        """Recoverable heap files that the next record may fill: those to recycle, and open ones."""
        pool = self._pools[Kind.RECOVERABLE]
        empty = len(pool.free)
        for each in pool.open:
            empty += not each.position
        return empty

    @property
    def surplus_files(self) -> int:
        """Empty files beyond those that are kept for recycling."""
        surplus = 0
        for each in self._pools.values():
            surplus += max(0, len(each.free) - HEAP_FREE_FILES)
        return surplus

    def trim(self, most: int) -> None:
        """Give up to `most` surplus files back to the file system, of each kind the last."""
        self._empty.trim(most, kept=HEAP_FREE_FILES)

    def give_back_one(self) -> bool:
        """Give an empty file back to a full file system, surplus or not; whether there was one."""
        return self._empty.give_back_one()

    def restore(self, occupied: Mapping[int, Occupancy]) -> None:
        """Take over the files of a former epoch; express files are gone.

        A file that is missing although live bytes lie in it is kept in mind: reading them raises,
        and their place stays theirs.
        """
        names = self._disk.names()
        for number in express_files(names):
            self._disk.remove(file_name(number))
        numbers = numbers_of(names)
        there = set(numbers)
        # In their order, so that the free ones are a heap.
        for number in sorted(there.union(occupied)):
            heap_file = self._files[number] = HeapFile(number)
            heap_file.lost = number not in there
            self._occupy(heap_file, occupied.get(number))
        for pool in self._pools.values():
            pool.skip(self._files)
            self._reopen(pool)

    def _occupy(self, heap_file: HeapFile, stock: Occupancy | None) -> None:
        if stock is None or not stock.live:
            self._pools[heap_file.kind].free.append(heap_file.number)
            return
        heap_file.live, heap_file.blocks = stock.live, stock.blocks
        heap_file.position = heap_file.dirty_from = stock.end
        heap_file.settled = True
        self.live_bytes += stock.live
        # Were something written behind the place where it was cut off, what is missing would
        # read as zeros.
        if heap_file.lost or (stock.size is not None and stock.size < stock.end):
            heap_file.position = heap_file.dirty_from = max(stock.end, self.file_bytes)

    def _reopen(self, pool: HeapPool) -> None:
        mine = (each for each in self._files.values() if each.live and each.kind is pool.kind)
        roomiest = heapq.nsmallest(
            HEAP_OPEN_FILES, mine, key=lambda each: (each.position, each.number)
        )
        for heap_file in roomiest:
            if heap_file.position < self.file_bytes:
                heap_file.open = True
                pool.open.append(heap_file)

    def place(self, data: ReadableBuffer, kind: Kind = Kind.RECOVERABLE) -> Extent:
        """Write payload into a heap file; durable after a sync that begins later.

        Express payload is never durable, and stays in memory while there is room. At most one heap
        file long. Raises StoreFull, and then nothing is kept; StorePoisoned.
        """
        if isinstance(data, memoryview):
            data = data.cast("B")
        length = len(data)
        assert length <= self.file_bytes, "a message never spans two heap files"
        heap_file = self._with_room(self._pools[kind], length)
        if kind is Kind.EXPRESS:
            self._spill_for(length)
        if heap_file.memory is not None:
            heap_file.remember(data)
            self._memory_bytes += length
        else:
            heap_file.write(self._file(heap_file), data)
        extent = heap_file.written(length)
        if heap_file.writes > heap_file.synced:
            self.dirty[heap_file.number] = heap_file
        self.live_bytes += length
        self.bytes_written += length
        return extent

    def free(self, extent: Extent) -> None:
        """The bytes of `extent` may be overwritten at once: no fact names it, or none does now."""
        if not extent.length:
            return
        heap_file = self._files[extent.file]
        heap_file.freed(extent)
        self.live_bytes -= extent.length
        self._reuse_if_empty(heap_file)

    def pin(self, number: int) -> None:
        """Keep the bytes of heap file `number` as they are, live or not, until `unpin`; counted."""
        self._known(number).readers += 1

    def unpin(self, number: int) -> None:
        """Take back one `pin`."""
        heap_file = self._files[number]
        heap_file.readers -= 1
        assert heap_file.readers >= 0, "a heap file was unpinned more often than pinned"
        # A file that was emptied and reused before it was pinned is in nobody's way.
        if heap_file.position:
            self._reuse_if_empty(heap_file)

    def read(self, extent: Extent, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes of `extent`, or `length` of them from `offset`. Raises StoreCorrupt."""
        rest = extent.length - offset
        image = bytearray(rest if length is None else min(length, rest))
        self.read_into(extent, memoryview(image), offset)
        return bytes(image)

    def read_into(self, extent: Extent, view: memoryview, offset: int = 0) -> int:
        """Fill `view` with the bytes of `extent` from `offset`. Raises StoreCorrupt."""
        length = min(len(view), extent.length - offset)
        if not length:
            return 0
        heap_file = self._known(extent.file)
        start = extent.offset + offset
        if heap_file.memory is not None:
            view[:length] = memoryview(heap_file.memory)[start : start + length]
            return length
        got = self._file(heap_file).read_into(view[:length], start)
        if got != length:
            raise short_file(extent.file)
        return length

    def descriptor(self, number: int) -> int:
        """The descriptor of heap file `number`, good until the store is called next.

        An express file in memory is written to the disk for it. Raises StoreFull then.
        """
        heap_file = self._known(number)
        if heap_file.memory is not None:
            self._spill(heap_file)
        return self._descriptors.to_read(heap_file)

    def opener(self, number: int) -> Callable[[], int]:
        """A function that opens heap file `number` to read, in any thread, while it is pinned.

        As `descriptor`, but what it gives is the caller's, and none kept here is given up for it.
        """
        heap_file = self._known(number)
        if heap_file.memory is not None:
            self._spill(heap_file)
        return partial(self._disk.open_to_read, file_name(number))

    def in_memory(self, number: int) -> bool:
        """Whether heap file `number` is an express file that the disk does not have."""
        return number in self._in_memory

    def live_files(self) -> list[int]:
        """Lasting files that are there and in which something is live."""
        return [
            each.number
            for each in self._files.values()
            if each.live and not each.lost and each.kind is not Kind.EXPRESS
        ]

    def live_blocks(self) -> dict[int, bytes]:
        """The live blocks of each lasting file: one bit each, see `LiveBlocks.bits`."""
        return {
            each.number: each.blocks.bits()
            for each in self._files.values()
            if each.live and each.kind is not Kind.EXPRESS
        }

    def sparse_files(self, share: int) -> list[int]:
        """Lasting files that take no more and of which one part in `share` or less is live."""
        return [
            each.number
            for each in self._files.values()
            if each.kind is not Kind.EXPRESS
            and each.live
            and not (each.open or each.lost)
            and each.live * share <= self.file_bytes
        ]

    def dirty_ranges(self) -> list[DirtyRange]:
        """Everything that no ended sync and no copy in the log covers, by file."""
        ranges = []
        for each in self.dirty.values():
            start = max(each.dirty_from, each.copied_to)
            if start < each.position:
                ranges.append(range_of((each.number, start, each.position)))
        return ranges

    def copies(self, ranges: Sequence[DirtyRange]) -> bytes:
        """The bytes of dirty ranges for the log, which cover them from now on.

        Nothing if they cannot be read, or if a name or size may be lost, which no copy mends.
        """
        if self.names_made > self.names_synced:
            return b""
        copies = []
        for number, start, stop in ranges:
            heap_file = self._files[number]
            if not heap_file.settled:
                return b""
            try:
                copies.append(heap_file.newest or self.read(Extent(number, start, stop - start)))
            except StoreCorrupt:
                # Then the sync of that file decides whether the disk has them.
                return b""
        for each in ranges:
            self._files[each.file].copied(each.stop)
        return copies[0] if len(copies) == 1 else b"".join(copies)

    @property
    def unsynced_bytes(self) -> int:
        """The number of bytes that `dirty_ranges` covers."""
        return sum(each.stop - each.start for each in self.dirty_ranges())

    def capture(self, *, copied: bool = False) -> list[Capture]:
        """The files that a sync must flush, for `captured`; with `copied` those the log has too."""
        captures = []
        for each in self.dirty.values():
            if copied or max(each.dirty_from, each.copied_to) < each.position:
                captures.append(each.capture(self._file(each)))  # noqa: PERF401 - no call for none
        return captures

    def captured(self, captures: Iterable[Capture]) -> None:
        """The sync of `captures` has ended well."""
        for capture in captures:
            heap_file = capture.heap_file
            heap_file.captured_is_durable(capture)
            if heap_file.writes <= heap_file.synced:
                self.dirty.pop(heap_file.number, None)

    def hand_out(self) -> list[Capture]:
        """Files of which much is not durable, or which take no more, until they are handed back."""
        room = HEAP_HANDED_OUT - self._handed_out
        least = self.file_bytes // FLUSH_SHARE
        worth = [
            each
            for each in self.dirty.values()
            if not each.handed and each.uncovered_bytes >= (least if each.open else 1)
        ][:room]
        for heap_file in worth:
            heap_file.handed = True
        self._handed_out += len(worth)
        return [each.capture(self._file(each)) for each in worth]

    def hand_back(self, capture: Capture) -> None:
        """A file that was handed out has been synced."""
        capture.heap_file.handed = False
        self._handed_out -= 1
        self.captured([capture])

    def close(self) -> None:
        """Give all descriptors back."""
        self._descriptors.close()

    # ---------------------------------------------------------------------------------- room

    def _known(self, number: int) -> HeapFile:
        heap_file = self._files.get(number)
        if heap_file is None or heap_file.lost:
            raise missing_file(number)
        return heap_file

    def _file(self, heap_file: HeapFile) -> File:
        # A recycled file may be a short one whose size was lost in a crash.
        return self._descriptors.file(heap_file, 0 if heap_file.live else self.file_bytes)

    def _with_room(self, pool: HeapPool, length: int) -> HeapFile:
        tightest = pool.tightest(length, self.file_bytes)
        if tightest is not None:
            return tightest
        heap_file = self._files[heapq.heappop(pool.free)] if pool.free else self._made(pool)
        if len(pool.open) == HEAP_OPEN_FILES:
            fullest = max(pool.open, key=lambda each: each.position)
            pool.open.remove(fullest)
            fullest.open = False
            self._reuse_if_empty(fullest)
        heap_file.open = True
        pool.open.append(heap_file)
        return heap_file

    def _reuse_if_empty(self, heap_file: HeapFile) -> None:
        if heap_file.live or heap_file.readers:
            return
        self.dirty.pop(heap_file.number, None)
        was_lost = heap_file.lost
        if heap_file.kind is Kind.EXPRESS:
            self._forget_express(heap_file)
        heap_file.rewind()
        if was_lost:
            del self._files[heap_file.number]
        elif heap_file.kind is Kind.EXPRESS and not heap_file.open:
            del self._files[heap_file.number], self._in_memory[heap_file.number]
        elif not heap_file.open:
            heapq.heappush(self._pools[heap_file.kind].free, heap_file.number)

    def _made(self, pool: HeapPool) -> HeapFile:
        heap_file = HeapFile(pool.new_number())
        if pool.kind is Kind.EXPRESS:
            self._keep_in_memory(heap_file)
        else:
            self._allocate(heap_file)
            self.names_made += 1
        self._files[heap_file.number] = heap_file
        pool.skip([heap_file.number])
        return heap_file

    def _allocate(self, heap_file: HeapFile) -> None:
        try:
            self._descriptors.file(heap_file, self.file_bytes)
        except StoreFull as error:
            name = file_name(heap_file.number)
            sentence = f"event {MESSAGE_FILE_NOT_MADE}: {name} cannot be made: {error}"
            raise StoreFull(sentence, event=MESSAGE_FILE_NOT_MADE, file=name) from error

    # ------------------------------------------------------------------------------- express

    def _keep_in_memory(self, heap_file: HeapFile) -> None:
        heap_file.memory = bytearray()
        self._in_memory[heap_file.number] = heap_file

    def _spill_for(self, length: int) -> None:
        """Write the oldest express files to the disk until so many bytes more fit the budget."""
        while self._in_memory and self._memory_bytes + length > self._express_bytes:
            self._spill(next(iter(self._in_memory.values())))

    def _spill(self, heap_file: HeapFile) -> None:
        assert heap_file.memory is not None, "only what is in memory is written out"
        self._allocate(heap_file)
        assert heap_file.file is not None
        heap_file.file.write(heap_file.memory, 0)
        self._memory_bytes -= len(heap_file.memory)
        heap_file.memory = None
        del self._in_memory[heap_file.number]

    def _forget_express(self, heap_file: HeapFile) -> None:
        """Nothing is left in an express file: back into memory with it."""
        if heap_file.memory is not None:
            self._memory_bytes -= len(heap_file.memory)
            del self._in_memory[heap_file.number]
        else:
            self._descriptors.give_up(heap_file)
            self._disk.remove(file_name(heap_file.number))
        self._keep_in_memory(heap_file)
