"""`dray receive` in a process of its own, which kills itself at a call that concerns a directory.

    python -m tests.crash.receive_party DIR before|after COUNT receive QUEUE --to DIR ...

COUNT is the number of the call. Without a kill it prints on standard error which calls there were.
No tool of the system is needed: the calls of Python's `os` are counted.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import wraps
from pathlib import Path

CALLS = (
    "open",
    "write",
    "pwrite",
    "ftruncate",
    "link",
    "unlink",
    "rename",
    "replace",
    "mkdir",
    "rmdir",
    "fsync",
    "fdatasync",
)


class Calls:
    """Counts the calls, and ends the process at one of them."""

    def __init__(self, folder: str, when: str, count: int) -> None:
        self.folder, self.when, self.count = folder, when, count
        self.seen: list[str] = []

    def watch(self, name: str) -> None:
        real = getattr(os, name)

        @wraps(real)
        def call(*given, **options):
            reads = name == "open" and not given[1] & os.O_CREAT
            at = options.get("dir_fd", options.get("dst_dir_fd"))
            if reads or not self.concerns(given[0] if at is None else at):
                return real(*given, **options)
            self.seen.append(name)
            # Others may call meanwhile, in their threads.
            is_the_one = len(self.seen) == self.count
            if is_the_one and self.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return real(*given, **options)
            finally:
                if is_the_one and self.when == "after":
                    os.kill(os.getpid(), signal.SIGKILL)

        setattr(os, name, call)

    def concerns(self, what: object) -> bool:
        if isinstance(what, int):
            try:
                what = Path(f"/proc/self/fd/{what}").readlink()
            except FileNotFoundError:
                return False
        return os.fspath(what).startswith(self.folder)


if __name__ == "__main__":
    folder, when, count, *arguments = sys.argv[1:]
    calls = Calls(folder, when, int(count))
    for each in CALLS:
        calls.watch(each)
    sys.argv[1:] = arguments
    try:
        from dray.cli import __main__  # noqa: F401 - runs the program
    finally:
        print("calls:", *calls.seen, file=sys.stderr)
