"""A program in a fork: it runs as `python -m` would run it, and ends without being taken apart.

When Python ends it frees each object. A process of its own does that fast, but a fork copies each
page first that it touches: `dray --help` spent two thirds of its processor time on it. So the last
thing that a program does, after its threads have ended and its functions of `atexit` have run, is
to flush its standard streams and to leave the rest to the kernel. Anything else that it has not
closed by then is not flushed.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys


class Ending:
    """How a program ends, if Python itself has nothing to say about it."""

    def __init__(self) -> None:
        self.status: int | None = None

    def leave(self) -> None:
        """End the process, unless Python has to: it tells of errors, also of the last flush."""
        if self.status is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return
        os._exit(self.status & 0xFF)


def run_to_its_end(module: str, arguments: list[str]) -> None:
    """Run a module as a program, in the place of all that follows."""
    ending = Ending()
    # What is registered first is called last.
    atexit.register(ending.leave)
    sys.argv[1:] = arguments
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            ending.status = ended.code or 0
        raise
    ending.status = 0
