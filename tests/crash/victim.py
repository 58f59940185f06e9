"""A process that is killed: it settles numbered messages and says each number once it is durable.

    python -m tests.crash.victim DIRECTORY

Each line of output is the number of a turn whose sync has ended. On start it says what it found.
"""

from __future__ import annotations

import sys
from random import Random
from threading import Thread

from dray.store.real_disk import RealDisk
from dray.store.store import Store
from tests.unit.store.ledger import Ledger, busy_turn

HEAP_BYTES = 64 << 10
LOG_BYTES = 256 << 10


def in_a_thread(run) -> None:
    thread = Thread(target=run)
    thread.start()
    thread.join()


def main(directory: str) -> None:
    store = Store(RealDisk(directory), heap_file_bytes=HEAP_BYTES, log_bytes=LOG_BYTES)
    ledger = Ledger()
    store.recover(ledger.load)
    ledger.check(store)
    print("found", ledger.turn, flush=True)
    rng = Random(ledger.turn)
    while True:
        busy_turn(store, ledger, rng, payload_max=HEAP_BYTES)
        while len(ledger.pieces) > 50:
            ledger.take(store, next(iter(ledger.pieces)))
        if store.checkpoint_due:
            store.checkpoint(ledger.snapshot())
        sync = store.begin_sync()
        if sync is not None:
            in_a_thread(sync.run)
            store.end_sync(sync)
        print("told", ledger.turn, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
