"""A real disk whose syncs wait at a gate, or fail, and which has no room, when told to."""

from __future__ import annotations

import threading
import time

from dray.errors import StoreFull, StorePoisoned
from dray.store.disk import ReadableBuffer
from dray.store.real_disk import RealDisk, RealFile


class Gate:
    """Open at first. `waiting` is set while a sync stands before a closed gate.

    Each sync takes `sync_s` more than the real disk does.
    """

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()
        self.broken = False
        self.no_room_for = ""
        self.broken_writes = ""
        self.passed = 0
        self.sync_s = 0.0
        self.threads: list[str] = []

    def close(self) -> None:
        self.waiting.clear()
        self.open.clear()

    def pass_through(self, name: str) -> None:
        if not self.open.is_set():
            self.waiting.set()
            assert self.open.wait(100), "nobody opened the gate"
        if self.broken:
            raise StorePoisoned(f"could not sync {name}: the test broke it.", file=name)
        self.passed += 1
        time.sleep(self.sync_s)
        self.threads.append(threading.current_thread().name)


class GatedFile(RealFile):
    gate: Gate

    def write(self, data: ReadableBuffer, offset: int) -> None:
        if self.gate.no_room_for and self.name.startswith(self.gate.no_room_for):
            raise StoreFull(f"there is no room to write {self.name}: the test took it.")
        if self.name == self.gate.broken_writes:
            raise StorePoisoned(f"could not write {self.name}: the test broke it.", file=self.name)
        super().write(data, offset)

    def sync(self) -> None:
        self.gate.pass_through(self.name)
        super().sync()


class GatedDisk(RealDisk):
    def __init__(self, path: str, gate: Gate) -> None:
        super().__init__(path)
        self.gate = gate

    def open(self, name: str, *, size: int = 0) -> GatedFile:
        plain = super().open(name, size=size)
        gated = GatedFile(name, plain.descriptor())
        gated.gate = self.gate
        return gated
