"""The real command in a process of its own, and what it said."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import NamedTuple

from dray.errors import every_error

WITHIN_S = 280
COMMAND = [sys.executable, "-m", "dray.cli"]


class Said(NamedTuple):
    """How a command ended and what it said."""

    status: int
    out: str
    err: str

    @property
    def value(self):
        """What it printed for programs."""
        return json.loads(self.out)

    def assert_good(self):
        """It did what it was asked to."""
        assert self.status == 0, self
        assert "Traceback" not in self.err
        return self

    def assert_error(self, code):
        """One clear line with the code, the status of its class, no traceback."""
        lines = [line for line in self.err.splitlines() if line.startswith("dray: ")]
        assert len(lines) == 1, self
        assert lines[0].startswith(f"dray: {code}: "), self
        assert len(lines[0]) > len(f"dray: {code}: ") + 10, "an error says what happened"
        assert "Traceback" not in self.err
        assert self.status == every_error()[code].exit_status != 0
        return lines[0]


def environment(url=None):
    """The environment of a command: nothing of ours but the address."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DRAY_")}
    return kept | ({"DRAY_URL": url} if url else {})


def dray(*arguments, url=None, stdin=b"", cwd=None):
    """Run `dray` with arguments to its end."""
    return run("dray.cli", *arguments, url=url, stdin=stdin, cwd=cwd)


def run(module, *arguments, url=None, stdin=b"", cwd=None):
    """Run a module as a program with arguments to its end."""
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        timeout=WITHIN_S,
        env=environment(url),
        cwd=cwd,
    )
    return Said(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def started(*arguments, url=None):
    """Run `dray` with arguments beside the test; it is ended with the block."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(url),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=WITHIN_S)


def finish(process):
    """Wait for a command that was started; what it said."""
    out, err = process.communicate(timeout=WITHIN_S)
    return Said(process.returncode, out.decode(), err.decode())


def until(condition, within_s=100.0):
    """Ask again and again until it is true; fails when the time is over."""
    deadline = time.monotonic() + within_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {within_s} s"
        time.sleep(0.01)
    return value


def words(text):
    """The cells of a plain table, line by line."""
    return [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
