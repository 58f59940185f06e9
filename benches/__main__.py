"""`python -m benches [NAME...]`: run benchmarks, print tables, and keep them when asked to."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from pathlib import Path

from benches.conditions import Conditions, conditions
from benches.results import Result, append_history, print_results
from dray.errors import DrayError
from dray.model.words import size_in_bytes
from dray.testing.processes import interrupted_once

# Small first: what gigabytes leave for the disk to tidy up makes every sync slow for a while.
NAMES = (
    "small",
    "embedded",
    "express",
    "storage_commits",
    "storage_writes",
    "slow_disk",
    "local_large",
    "transfer",
    "file_transfer",
    "folders",
    "delivery",
    "worlds",
    "lanes",
    "hostile",
    "secured",
    "http",
    "memory",
    "console",
    "storage_depth",
    "storage_reopen",
    "small_peers",
    "two_hops",
    "two_managers",
    "large_peers",
    "spark",
    "spark_large",
    "spark_tasks",
    "spark_rows",
)
GROUPS = {"peers": ("small_peers", "two_hops", "two_managers", "transfer", "large_peers")}
"""One name for several: all work that has a bar beside other queues and this machine."""
RECORDED_LOAD_MAX = 0.5
"""A history with figures of a busy machine says nothing about what a change has cost."""
INTERRUPTED = 130
"""The exit status of a shell's command that ^C has ended."""
HISTORY = Path(__file__).parent / "history"


def main() -> int:
    """Run what was asked for; 1 if a benchmark failed."""
    arguments = _arguments()
    here = conditions(arguments.work)
    print(here.text)
    if arguments.record and here.load > RECORDED_LOAD_MAX:
        print(
            f"nothing is measured: at a load of {here.load:.1f} figures are not worth keeping, and"
            f" --record takes them up to {RECORDED_LOAD_MAX}; wait until the machine is idle, or"
            " leave out --record",
            file=sys.stderr,
        )
        return 1
    status = 0
    for name in arguments.names or list(NAMES):
        module = importlib.import_module(f"benches.{name}")
        # What another benchmark, or anyone, left for the disk to write would be counted as ours.
        os.sync()
        with tempfile.TemporaryDirectory(prefix="dray-bench-", dir=arguments.work) as folder:
            try:
                results = module.run(Path(folder), size_in_bytes(arguments.size), arguments.rounds)
            except DrayError as error:
                print(f"{name} failed: dray: {error.code}: {error}", file=sys.stderr)
                status = 1
                continue
        _show(name, results, here, record=arguments.record)
    return status


def _show(name: str, results: list[Result], here: Conditions, *, record: bool) -> None:
    print_results(name, results)
    if record:
        append_history(HISTORY, name, results, here)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join((*NAMES, *GROUPS)))
    parser.add_argument("--size", default="1GiB", help="size of the large payload (1GiB)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; medians are shown (3)")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()), help="where")
    parser.add_argument("--record", action="store_true", help="append to benches/history")
    arguments = parser.parse_args()
    asked = ([*GROUPS.get(each, (each,))] for each in arguments.names)
    arguments.names = [name for names in asked for name in names]
    unknown = set(arguments.names) - set(NAMES)
    if unknown:
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: {', '.join(NAMES)}")
    return arguments


if __name__ == "__main__":
    try:
        # However it is ended, its servers and clients end with it.
        with interrupted_once():
            sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
