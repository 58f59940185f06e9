"""Empty heap files that go back to the file system: a few in quiet moments, one on a full disk."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping

from dray.store.disk import Disk
from dray.store.heap.descriptors import Descriptors
from dray.store.heap.heap_file import HeapFile
from dray.store.heap.heap_pool import HeapPool
from dray.store.kinds import Kind, file_name


class EmptyFiles:
    """Takes files out of the pools of a heap and off the disk, unless somebody still uses them."""

    def __init__(
        self,
        disk: Disk,
        descriptors: Descriptors,
        files: dict[int, HeapFile],
        pools: Mapping[Kind, HeapPool],
    ) -> None:
        """Work on what a heap has."""
        self._disk = disk
        self._descriptors = descriptors
        self._files = files
        self._pools = pools

    def trim(self, most: int, *, kept: int) -> None:
        """Give up to `most` files back of those beyond `kept`, of each kind the last."""
        for pool in self._pools.values():
            excess = max(0, min(most, len(pool.free) - kept))
            self._give_back(pool, sorted(pool.free, reverse=True)[:excess], most=excess)

    def give_back_one(self) -> bool:
        """Give one file back, whatever is kept for recycling; whether there was one."""
        return any(
            self._give_back(pool, sorted(pool.free, reverse=True), most=1)
            for pool in self._pools.values()
        )

    def _give_back(self, pool: HeapPool, numbers: Iterable[int], *, most: int) -> int:
        given = 0
        for number in numbers:
            if given == most:
                break
            if self._files[number].pins or self._files[number].readers:
                continue
            pool.free.remove(number)
            self._descriptors.give_up(self._files.pop(number))
            self._disk.remove(file_name(number))
            given += 1
        heapq.heapify(pool.free)
        return given
