"""A program that tells how it was started, for the tests of `tests.warm`."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from pathlib import Path

if __name__ == "__main__":
    print(sys.argv[1:])
    print(Path.cwd())
    print(os.environ.get("DRAY_X"))
    print(input())
    print("child of", os.getppid())
    print("group", os.getpgid(0))
    handler = signal.getsignal(signal.SIGINT)
    print("SIGINT", getattr(handler, "__name__", handler))
    atexit.register(print, "the end")
    threading.Timer(0.01, print, ["a thread"]).start()
    sys.exit(7)
