"""Worlds by the thousand: seed after seed of one kind, in several processes, and how many a minute.

    python -m dray.testing.worlds fates --seconds 60 --processes 2

Each process lives one world at a time, so what is counted is worlds of one kind by the whole
machine. The processes are forks, for all that they need has been imported. A world that breaks a
promise is told with the command that runs it again; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from dray.testing.fate_world import FateWorld
from dray.testing.restored_world import RestoredWorld
from dray.testing.stream_world import StreamWorld
from dray.testing.world import World

_BATCH = 4
"""Worlds between two looks at the clock."""


class _World(Protocol):
    def run(self) -> str: ...


KINDS: dict[str, Callable[[int], _World]] = {
    "managers": World,
    "fates": FateWorld,
    "streams": StreamWorld,
    "restored": RestoredWorld,
}


class Lived(NamedTuple):
    """How one process fared: worlds, and what went wrong in those that failed."""

    worlds: int
    failures: list[str]


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
    failures = []
    with uncollected():
        for seed in seeds:
            try:
                KINDS[kind](seed).run()
            except Exception as error:  # noqa: BLE001 - whatever it is, the seed is to be told
                notes = "; ".join(getattr(error, "__notes__", []))
                failures.append(f"{kind} {seed}: {type(error).__name__}: {error} ({notes})")
    return Lived(len(seeds), failures)


def _live_batch(work: tuple[str, int]) -> Lived:
    kind, first = work
    return live(kind, range(first, first + _BATCH))


def main(arguments: list[str] | None = None) -> int:
    """Live worlds for a while; print how many a minute and what failed."""
    parser = argparse.ArgumentParser(prog="python -m dray.testing.worlds")
    parser.add_argument("kind", choices=[*KINDS], nargs="?", default="managers")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args(arguments)
    worlds, failures, began = 0, list[str](), time.monotonic()

    def batches() -> Iterator[tuple[str, int]]:
        first = options.first
        while time.monotonic() - began < options.seconds:
            yield options.kind, first
            first += _BATCH

    # What is there already is nobody's garbage, and forks share it for as long as none looks at it.
    gc.freeze()
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        work = batches()
        under_way = [
            pool.apply_async(_live_batch, (each,))
            for each, _ in zip(work, range(2 * options.processes), strict=False)
        ]
        while under_way:
            lived = under_way.pop(0).get()
            worlds += lived.worlds
            failures += lived.failures
            following = next(work, None)
            if following is not None:
                under_way.append(pool.apply_async(_live_batch, (following,)))
        spent = time.monotonic() - began
    rate = round(worlds / spent * 60)
    sys.stdout.write(
        f"{worlds} worlds of {options.kind} in {spent:.1f} s by {options.processes} processes:"
        f" {rate} a minute, {len(failures)} failed\n"
    )
    sys.stdout.writelines(f"{each}\n" for each in failures)
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
