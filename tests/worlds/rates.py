"""Worlds by the thousand: seed after seed of one kind, in several processes, and how many a minute.

    python -m tests.worlds swarm --seconds 60 --processes 2

Each process lives one world at a time, so what is counted is worlds of one kind by the whole
machine. The processes are forks, for all that they need has been imported. Worlds of whole managers
tell how many managers they had and in how many each trouble struck. A world that breaks a promise
is told with the command that runs it again; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from operator import itemgetter
from typing import NamedTuple, Protocol

from tests.worlds.copied_world import CopiedWorld
from tests.worlds.manager_world import ManagerWorld, swarm_world
from tests.worlds.restored_world import RestoredWorld
from tests.worlds.stream_world import StreamWorld
from tests.worlds.world import World

_BATCH = 4
"""Worlds between two looks at the clock."""


class _World(Protocol):
    def run(self) -> str: ...


KINDS: dict[str, Callable[[int], _World]] = {
    "pairs": World,
    "swarm": swarm_world,
    "large": ManagerWorld,
    "streams": StreamWorld,
    "restored": RestoredWorld,
    "copied": CopiedWorld,
}


class Lived(NamedTuple):
    """How some worlds fared, and what they met."""

    worlds: int
    failures: list[str]
    """What went wrong in those that failed."""
    sizes: Counter[int]
    """How many had so many managers."""
    struck: Counter[str]
    """In how many each trouble struck."""
    met: Counter[tuple[str, str]]
    """In how many two troubles met."""

    def and_also(self, other: Lived) -> Lived:
        """Count together."""
        return Lived(
            self.worlds + other.worlds,
            self.failures + other.failures,
            self.sizes + other.sizes,
            self.struck + other.struck,
            self.met + other.met,
        )


NONE_LIVED = Lived(0, [], Counter(), Counter(), Counter())


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave the collector of cycles out while a world lives: it is short, and dies at once."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
            gc.collect(1)


def live(kind: str, seeds: range) -> Lived:
    """Live one world for each seed."""
    lived = NONE_LIVED
    with uncollected():
        for seed in seeds:
            lived = lived.and_also(_live_one(kind, seed))
    return lived


def _live_one(kind: str, seed: int) -> Lived:
    failures = list[str]()
    world = KINDS[kind](seed)
    try:
        world.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the seed is to be told
        notes = "; ".join(getattr(error, "__notes__", []))
        failures.append(f"{kind} {seed}: {type(error).__name__}: {error} ({notes})")
    if not isinstance(world, World):
        return NONE_LIVED._replace(worlds=1, failures=failures)
    struck = sorted(world.troubles())
    return Lived(
        1,
        failures,
        Counter([len(world.daemons)]),
        Counter(struck),
        Counter(combinations(struck, 2)),
    )


def _live_batch(work: tuple[str, int]) -> Lived:
    kind, first = work
    return live(kind, range(first, first + _BATCH))


def main(arguments: list[str] | None = None) -> int:
    """Live worlds for a while; print how many a minute and what failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.worlds")
    parser.add_argument("kind", choices=[*KINDS], nargs="?", default="swarm")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    lived, spent = live_for(
        options.kind, options.seconds, processes=options.processes, first=options.first
    )
    rate = round(lived.worlds / spent * 60)
    sys.stdout.write(
        f"{lived.worlds} worlds of {options.kind} in {spent:.1f} s by {options.processes}"
        f" processes: {rate} a minute, {len(lived.failures)} failed\n"
    )
    sys.stdout.writelines(f"{each}\n" for each in (*described(lived, spent), *lived.failures))
    return 1 if lived.failures else 0


def live_for(kind: str, seconds: float, *, processes: int, first: int = 0) -> tuple[Lived, float]:
    """Live worlds for a while, from a seed on; gives how they fared and the seconds it took."""
    lived, began = NONE_LIVED, time.monotonic()

    def batches() -> Iterator[tuple[str, int]]:
        at = first
        while time.monotonic() - began < seconds:
            yield kind, at
            at += _BATCH

    # What is there already is nobody's garbage, and forks share it for as long as none looks at it.
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        work = batches()
        under_way = [
            pool.apply_async(_live_batch, (each,))
            for each, _ in zip(work, range(2 * processes), strict=False)
        ]
        while under_way:
            lived = lived.and_also(under_way.pop(0).get())
            following = next(work, None)
            if following is not None:
                under_way.append(pool.apply_async(_live_batch, (following,)))
        return lived, time.monotonic() - began


def described(lived: Lived, spent: float) -> Iterator[str]:
    """Say what worlds had, in lines: managers, troubles, and which of these met least often."""
    if not lived.sizes:
        return
    sizes = (f"{size} in {_share(count, lived)}" for size, count in sorted(lived.sizes.items()))
    yield f"managers: {', '.join(sizes)}"
    often = lived.struck.most_common()
    struck = (f"{trouble} in {_share(count, lived)}" for trouble, count in often)
    mean = lived.struck.total() / lived.worlds
    yield f"troubles: {mean:.1f} a world; {', '.join(struck)}"
    pairs = {pair: lived.met[pair] for pair in combinations(sorted(lived.struck), 2)}
    if pairs:
        (one, other), met = min(pairs.items(), key=itemgetter(1))
        yield f"met least often: {one} and {other}, {round(met / spent * 3600)} times an hour"


def _share(count: int, lived: Lived) -> str:
    return f"{100 * count / lived.worlds:.0f} %"


if __name__ == "__main__":
    raise SystemExit(main())
