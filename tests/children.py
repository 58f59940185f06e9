"""Children that tests make with `os.fork`, in the middle of a test and of its threads."""

from __future__ import annotations

import atexit
import gc
import io
import os
import pickle
import select
import signal
import sys
import traceback
from collections.abc import Callable

PATIENCE_S = 100


class Child:
    """A forked process that runs one function; `result` gives what that gave, or raises."""

    def __init__(self, act: Callable[[], object], *, falls_out: bool = False) -> None:
        """Fork, and run `act` in the child, which then ends as a worker does.

        With `falls_out` it ends as a program does: every `atexit` handler runs, everything that can
        be reached is torn down.
        """
        self._reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                os.close(self._reader)
                signal.alarm(PATIENCE_S)
                status = _report(writer, act)
            finally:
                if falls_out:
                    # The frames of the test run would go on in the child.
                    _end_as_programs_do()
                os._exit(status)
        os.close(writer)

    def result(self) -> object:
        """Wait for the child; give what its function gave, or raise what it raised."""
        try:
            told = b""
            while select.select([self._reader], [], [], PATIENCE_S)[0]:
                more = os.read(self._reader, 1 << 20)
                if not more:
                    break
                told += more
        finally:
            os.close(self._reader)
            _, self.status = os.waitpid(self.pid, 0)
        if not told:
            raise AssertionError(
                f"the child ended with wait status {self.status}, and said nothing"
            )
        kind, value = pickle.loads(told)  # noqa: S301 - our own child wrote it
        if kind == "raised":
            error, trace = value
            error.add_note(trace)
            raise error
        return value


def in_child(act: Callable[[], object], **options: bool) -> object:
    """Run a function in a forked child; give what it gives, raise what it raises there."""
    return Child(act, **options).result()


def _report(writer: int, act: Callable[[], object]) -> int:
    try:
        said = pickle.dumps(("gave", act()))
    except BaseException as error:  # noqa: BLE001 - raised again in the parent
        said = pickle.dumps(("raised", (error, traceback.format_exc())))
    with os.fdopen(writer, "wb") as pipe:
        pipe.write(said)
    return 0


def _end_as_programs_do() -> None:
    # What pytest captures is the parent's.
    sys.stdout = sys.stderr = io.StringIO()
    atexit._run_exitfuncs()
    gc.collect()
