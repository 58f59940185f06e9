"""How many seeded worlds of two to four queue managers this machine lives in a minute.

The same as `python -m tests.worlds swarm`: the swarm, by all processors.
"""

from __future__ import annotations

import multiprocessing
from pathlib import Path

from benches.results import Result
from tests.worlds.rates import described, live_for

BAR_A_MINUTE = 2000
SECONDS = 20.0
SEEDS_APART = 100_000
"""Between the first seeds of two rounds."""


def run(folder: Path, size: int, rounds: int) -> list[Result]:
    """Live for a while, each round with other worlds."""
    del folder, size
    processes, rates, broken, notes = multiprocessing.cpu_count(), [], [], list[str]()
    for number in range(rounds):
        first = number * SEEDS_APART
        lived, spent = live_for("swarm", SECONDS, processes=processes, first=first)
        rates.append(lived.worlds / spent * 60)
        broken.append(len(lived.failures))
        notes += lived.failures
    wanted = [BAR_A_MINUTE] * rounds
    return [
        Result("worlds of the swarm, by all processors", "a minute", rates, "what is wanted",
               wanted, bar=1, note="; ".join(described(lived, spent))),
        Result("most in a round that broke a promise", "worlds", [max(broken)], bar=0,
               note="; ".join(notes)),
    ]  # fmt: skip
