"""A small owner for the store: named pieces of payload, and the turn they were settled in.

Its other half, kept in MQInSeqs, is how many pieces were ever put.

The tests drive a `Store` through it. Each turn ends with a fact that says its number, so that a
recovered state names the one turn it must be equal to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from crc32c import crc32c

from dray.store.heap.heap import Extent
from dray.store.kinds import Kind
from dray.store.log.checkpoint import Snapshots
from dray.store.recovery.recovery import History
from dray.store.store import Store
from dray.testing.disk import CrashEffect, SimDisk

HEAP_BYTES = 4096
LOG_BYTES = 16 << 10


class Ledger:
    """State, and how facts change it."""

    def __init__(self) -> None:
        self.pieces: dict[int, tuple[Extent, int]] = {}
        self.turn = 0
        self.puts = 0
        self.loads = 0

    def load(self, history: History) -> Iterable[tuple[Extent, int]]:
        self.pieces.clear()
        self.turn = 0
        self.puts = int(history.sequences or 0)
        self.loads += 1
        for line in (history.state or b"").splitlines():
            self.apply_to_state(line)
        for number, fact in enumerate(history.facts):
            if number >= history.in_state:
                self.apply_to_state(fact)
            if number >= history.in_sequences:
                self.apply_to_sequences(fact)
        return iter(self.pieces.values())

    def apply(self, fact: bytes) -> None:
        self.apply_to_state(fact)
        self.apply_to_sequences(fact)

    def apply_to_state(self, fact: bytes) -> None:
        match fact.split():
            case [b"put", key, file, offset, length, crc, *_]:
                extent = Extent(int(file), int(offset), int(length))
                self.pieces[int(key)] = (extent, int(crc))
            case [b"take", key]:
                del self.pieces[int(key)]
            case [b"turn", number]:
                self.turn = int(number)
            case _:
                raise AssertionError(f"nobody appended {fact!r}")

    def apply_to_sequences(self, fact: bytes) -> None:
        self.puts += fact.startswith(b"put")

    def snapshot(self) -> Snapshots:
        return Snapshots(list(self.state_snapshot()), [b"%d" % self.puts])

    def state_snapshot(self) -> Iterator[bytes]:
        for key, (extent, crc) in self.pieces.items():
            yield b"put %d %d %d %d %d\n" % (key, *extent, crc)
        yield b"turn %d\n" % self.turn

    def state(self) -> tuple[int, dict[int, tuple[Extent, int]], int]:
        return self.turn, dict(self.pieces), self.puts

    # Changes, as an owner makes them: payload, fact, state.

    def put(self, store: Store, key: int, payload: bytes, kind: Kind = Kind.RECOVERABLE) -> None:
        extent = store.place(payload, kind)
        self._say(store, b"put %d %d %d %d %d" % (key, *extent, crc32c(payload)))

    def take(self, store: Store, key: int) -> None:
        extent, _ = self.pieces[key]
        store.release(extent)
        self._say(store, b"take %d" % key)

    def end_turn(self, store: Store) -> None:
        self._say(store, b"turn %d" % (self.turn + 1))

    def _say(self, store: Store, fact: bytes) -> None:
        store.append(fact)
        self.apply(fact)

    def check(self, store: Store) -> None:
        """Every live piece reads back as it was placed, and no two overlap."""
        stop, file = 0, 0
        for extent, crc in sorted(self.pieces.values()):
            assert crc32c(store.read(extent)) == crc
            if not extent.length:
                continue
            assert extent.file != file or extent.offset >= stop
            file, stop = extent.file, extent.offset + extent.length


def small_store(disk: SimDisk, *, rebuild: bool = False) -> Store:
    return Store(disk, heap_file_bytes=HEAP_BYTES, log_bytes=LOG_BYTES, rebuild=rebuild)


def opened(disk: SimDisk, ledger: Ledger | None = None) -> tuple[Store, Ledger]:
    ledger = ledger or Ledger()
    store = small_store(disk)
    store.recover(ledger.load)
    return store, ledger


def busy_turn(store: Store, ledger: Ledger, rng: Random, *, payload_max: int = 1500) -> None:
    """Put, take and abort a few pieces; nothing is synced."""
    for _ in range(rng.randrange(1, 4)):
        if ledger.pieces and rng.random() < 0.45:
            ledger.take(store, rng.choice(list(ledger.pieces)))
            continue
        payload = rng.randbytes(rng.randrange(payload_max))
        if rng.random() < 0.2:
            store.discard(store.place(payload))
        else:
            kind = Kind.JOURNAL if rng.random() < 0.3 else Kind.RECOVERABLE
            ledger.put(store, rng.randrange(1 << 40), payload, kind)
    ledger.end_turn(store)


def used(*, checkpoints: int, later: bool = False) -> tuple[SimDisk, Ledger]:
    """A store after so many checkpoints and a turn, in its first lap of the log or `later`."""
    rng = Random(5)
    disk = SimDisk(rng)
    store, ledger = opened(disk)
    while store.counters.checkpoints < checkpoints or (later and store._log.head < LOG_BYTES):
        busy_turn(store, ledger, rng)
        if store.checkpoint_due or not later:
            store.checkpoint(ledger.snapshot())
        store.sync()
    busy_turn(store, ledger, rng)
    store.sync()
    store.close()
    return disk.crash(CrashEffect.KEPT), ledger
