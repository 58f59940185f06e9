"""Stands in for Python: has `preloaded.py` start a program, and ends as the program does.

preloaded_python.py SOCKET -m MODULE ARGUMENT...

It is short, and loads little: Java starts it in the place of Python.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys


class Started:
    """A program. Its id is not given to another process before it is closed."""

    def __init__(self, path, asked, streams):
        """Have it started by whoever listens at `path`."""
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._told.connect(path)
        asked["masked"] = [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
        asked["executable"] = os.path.join(os.path.dirname(path), "python")  # noqa: PTH118, PTH120
        socket.send_fds(self._told, [json.dumps(asked).encode()], streams)
        self.pid = int(self._told.recv(64))

    def wait(self, timeout=None):
        """The status at its end, negative for a signal; raises `TimeoutError`."""
        self._told.settimeout(timeout)
        return int(self._told.recv(64))

    def close(self):
        """Let go of it; one that still runs is ended."""
        self._told.close()


def stand_in(path, module, arguments):
    asked = {"module": module, "arguments": arguments, "environment": dict(os.environ)}
    asked |= {"cwd": os.getcwd(), "own_session": False}  # noqa: PTH109
    started = Started(path, asked, [0, 1, 2])
    signal.signal(signal.SIGTERM, lambda *_: os.kill(started.pid, signal.SIGTERM))
    status = started.wait()
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


if __name__ == "__main__":
    stand_in(sys.argv[1], sys.argv[3], sys.argv[4:])
