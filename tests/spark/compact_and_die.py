"""Compactions that are killed with SIGKILL at each call to the file system; run as a program.

compact_and_die.py COPIES: in each directory in COPIES, a child of this process compacts the landed
table and dies at its first, second, ... call; it prints the exit status of each.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

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


def main(copies):
    import deltalake  # noqa: F401 - what the children would import is no call of theirs

    from dray.spark.landing.compact import compact

    for call, out in enumerate(sorted(Path(copies).iterdir()), 1):
        child = os.fork()
        if not child:
            die_at(call)
            compact(out)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
