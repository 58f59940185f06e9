"""A real process on a real disk, killed at random moments again and again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from dray.store.real_disk import RealDisk
from dray.store.store import Store
from tests.crash.victim import HEAP_BYTES, LOG_BYTES
from tests.unit.store.ledger import Ledger

HOUSE = Path(__file__).parents[2]


def last_turn_told(directory: Path, turns: int) -> int:
    """Start the victim, kill it after it has told of so many turns; what it had told by then."""
    command = [sys.executable, "-m", "tests.crash.victim", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=HOUSE, text=True) as victim:
        assert victim.stdout is not None
        lines = [victim.stdout.readline() for _ in range(turns)]
        assert lines[-1]
        victim.kill()
        lines += victim.stdout.read().splitlines()
    told = [int(line.split()[1]) for line in lines if line.startswith("told ")]
    return max(told, default=0)


@pytest.mark.slow
def test_ten_kills_lose_nothing_that_was_told(tmp_path, went_through):
    rng = Random(1)
    told = 0
    for _ in range(10):
        told = max(told, last_turn_told(tmp_path, rng.randrange(2, 150)))
        ledger = Ledger()
        store = Store(RealDisk(tmp_path), heap_file_bytes=HEAP_BYTES, log_bytes=LOG_BYTES)
        store.recover(ledger.load)
        assert ledger.turn >= told
        ledger.check(store)
        store.close()
        went_through["kills"] += 1
    assert told > 100
