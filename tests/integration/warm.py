"""A process that has loaded the command line once, and is forked for each command that tests run.

    python -m tests.integration.warm DESCRIPTOR

Each command is still a process of its own, with its own arguments, environment, directory and
standard streams, and ends as it would otherwise. Only the start of Python and the loading of
modules are saved, which take a third of a second for each of several hundred commands.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from select import PIPE_BUF
from typing import ClassVar, NamedTuple, Self

REQUEST_BYTES_MAX = 1 << 16
READ_BYTES = 1 << 16
STREAMS = 3


class Program(NamedTuple):
    """A module to run as a program."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    cwd: os.PathLike[str] | str | None = None


class WarmCommand:
    """The process, from the side of the tests."""

    running: ClassVar[WarmCommand | None] = None
    """The one of this run of tests, if it has one."""

    def __init__(self) -> None:
        """Start it; it loads its modules while the tests begin."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.warm", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._environment = of_python(os.environ)

    def __enter__(self) -> Self:
        """It is ended with the block."""
        return self

    def __exit__(self, *_error: object) -> None:
        """End it."""
        self._socket.close()
        self._process.wait(100)

    def serves(self, program: Program) -> bool:
        """Whether the program would have started Python as this process was started."""
        return of_python(program.environment) == self._environment

    def run(self, program: Program, stdin: bytes, within_s: float) -> tuple[int, str, str]:
        """Run a program to its end: exit status as `subprocess` gives it, output, errors."""
        with ExitStack() as streams:
            pipes = [[streams.enter_context(each) for each in _pipe()] for _ in range(STREAMS)]
            (its_in, to_it), *from_it = pipes
            theirs = [its_in, *(write for _, write in from_it)]
            told, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            streams.enter_context(ours)
            with told:
                self._ask(program, [each.fileno() for each in (*theirs, told)])
            for each in theirs:
                each.close()
            pid = int(ours.recv(64))
            try:
                out, err = _exchange(to_it, stdin, [read for read, _ in from_it], within_s)
                return int(ours.recv(64)), out.decode(), err.decode()
            except BaseException:
                os.kill(pid, signal.SIGKILL)
                raise

    def _ask(self, program: Program, descriptors: list[int]) -> None:
        umask = Path("/proc/self/status").read_text("ascii").partition("Umask:")[2].split()[0]
        place = os.fspath(program.cwd or Path.cwd())
        request = [program.module, program.arguments, program.environment, place, int(umask, 8)]
        socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)


def _pipe() -> tuple[FileIO, FileIO]:
    read, write = os.pipe()
    return FileIO(read, "rb"), FileIO(write, "wb")


def _exchange(
    to_it: FileIO, stdin: bytes, from_it: Sequence[FileIO], within_s: float
) -> list[bytes]:
    """Write all of its input, read all of its output, whichever it is ready for."""
    said: dict[object, bytes] = dict.fromkeys(from_it, b"")
    left, deadline = memoryview(stdin), time.monotonic() + within_s
    with selectors.DefaultSelector() as selector:
        for each in from_it:
            selector.register(each, selectors.EVENT_READ)
        selector.register(to_it, selectors.EVENT_WRITE)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the command has not ended within {within_s} s")
            for key, _ in ready:
                file = key.fileobj
                assert isinstance(file, FileIO)
                if file is to_it:
                    left = _write(file, left)
                    over = not left
                else:
                    data = os.read(key.fd, READ_BYTES)
                    said[file] += data
                    over = not data
                if over:
                    selector.unregister(file)
                    file.close()
    return list(said.values())


def _write(file: FileIO, left: memoryview) -> memoryview:
    try:
        # A pipe that is ready takes this much without waiting.
        return left[os.write(file.fileno(), left[:PIPE_BUF]) :]
    except BrokenPipeError:
        return left[:0]


def of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python itself reads when it starts."""
    names = ("PYTHON", "LC_", "LANG")
    return {name: value for name, value in environment.items() if name.startswith(names)}


def load() -> None:
    """Load the modules of every command."""
    package = importlib.import_module("dray.cli")
    names = [each.name for each in pkgutil.walk_packages(package.__path__, "dray.cli.")]
    names += ["dray.client.blocking.manager", "dray.client.blocking.queue"]
    for name in names:
        if not name.endswith(".__main__"):
            importlib.import_module(name)


def serve(requests: socket.socket) -> list[str] | None:
    """Fork for each request; gives module and arguments in a command, nothing at the end."""
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, STREAMS + 1)
        if not request:
            return None
        if child := os.fork():
            for each in descriptors:
                os.close(each)
            os.waitpid(child, 0)
            continue
        # The child leaves at once, so that nobody has to wait for the next one, which tells how the
        # command ended that it forks.
        if os.fork():
            os._exit(0)
        requests.close()
        *streams, told = descriptors
        command = os.fork()
        if not command:
            os.close(told)
            return prepared(json.loads(request), streams)
        for each in streams:
            os.close(each)
        os.write(told, b"%d" % command)
        os.write(told, b"%d" % os.waitstatus_to_exitcode(os.waitpid(command, 0)[1]))
        os._exit(0)


def prepared(request: list[object], streams: list[int]) -> list[str]:
    """Make the process what the request asks for; module and arguments are left."""
    module, arguments, environment, place, umask = request
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)  # type: ignore[arg-type]
    os.chdir(place)  # type: ignore[arg-type]
    os.umask(umask)  # type: ignore[arg-type]
    return [module, *arguments]  # type: ignore[list-item, misc]


if __name__ == "__main__":
    load()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        found = serve(asked)
    if found is not None:
        module, *sys.argv[1:] = found
        runpy.run_module(module, run_name="__main__", alter_sys=True)
