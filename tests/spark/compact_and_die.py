"""Compactions that are killed with SIGKILL at each call to the file system; run as a program.

compact_and_die.py COPIES: in each directory in COPIES, a child of this process compacts the landed
table and dies at its first, second, ... call; it prints the exit status of each.

compact_and_die.py OUT STEPS FIRST: so many children do that in one directory, one after the other,
while this process lands there from number FIRST on; it prints the last number, too.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pyarrow as pa

from dray.spark.landing.compact import compact
from dray.spark.landing.table import LandedTable, Reached
from dray.spark.schema import LANDED

CALLS = {"open", "os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir"}


def die_at(call):
    """Kill this process at its so many-th call that touches the disk."""
    left = call

    def count(event, given):
        nonlocal left
        changes = event != "open" or (isinstance(given[1], str) and given[1] != "rb")
        if event in CALLS and changes:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def compact_until(call, out):
    """Begin a compaction that dies at a call; give its process."""
    child = os.fork()
    if not child:
        die_at(call)
        compact(out)
        os._exit(0)
    return child


def compact_copies(copies):
    import deltalake  # noqa: F401 - what the children would import is no call of theirs

    for call, out in enumerate(sorted(copies.iterdir()), 1):
        _, status = os.waitpid(compact_until(call, out), 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def compact_beside_landing(out, steps, number):
    table = LandedTable(out / "table")
    for call in range(1, steps + 1):
        child, ended = compact_until(call, out), 0
        while not ended:
            row = {"sequence_id": f"m\\{number}", "state": "landed"}
            table.commit(pa.Table.from_pylist([row], schema=LANDED), Reached())
            number += 1
            ended, status = os.waitpid(child, os.WNOHANG)
        print(os.waitstatus_to_exitcode(status), flush=True)
    print(number - 1)


def main(directory, *given):
    if given:
        compact_beside_landing(Path(directory), *map(int, given))
    else:
        compact_copies(Path(directory))


if __name__ == "__main__":
    main(*sys.argv[1:])
