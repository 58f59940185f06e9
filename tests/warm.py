"""A process that has loaded the programs of Dray; tests fork each program that they start from it.

    python -m tests.warm DESCRIPTOR

Each program is still a process of its own and a child of the tests, with its own arguments,
environment, directory and standard streams, and ends as it would otherwise. Only the start of
Python and the loading of modules are saved, a third of a processor second for each of the thousands
of programs of a run. `subprocess` in the tests starts programs in this way where it makes no
difference, which `WarmPopen` decides, and as ever where it may.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

from tests.forked_program import run_to_its_end

FOLDERS = frozenset({"contract", "crash", "docs", "integration", "spark"})
"""Folders of tests that start programs."""
PACKAGES = ("dray.", "tests.")
"""Modules in them are the programs."""
HOUSE = Path(__file__).parent.parent
REQUEST_BYTES_MAX = 1 << 17
STREAMS = 3
_PR_SET_CHILD_SUBREAPER = 36
_LIMITS = tuple(getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_"))


class Program(NamedTuple):
    """A module to run as a program, and what the new process inherits."""

    module: str
    arguments: list[str]
    environment: dict[str, str]
    cwd: str
    umask: int
    masked: list[int]
    own_session: bool


class WarmPython:
    """The process, from the side of the tests."""

    def __init__(self) -> None:
        """Start it; it loads its modules while the tests begin."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = _COLD(
                [sys.executable, "-m", "tests.warm", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=HOUSE,
            )
        self._lock = threading.Lock()
        self._adopt = ctypes.CDLL(None, use_errno=True).prctl
        self._began_with = _inherited(os.environ)

    def end(self) -> None:
        """End it; programs that it has started go on."""
        self._socket.close()
        self._process.wait(100)

    def serves(self, program: Program, request: bytes, streams: list[int]) -> bool:
        """Whether a program would find Python and the process as this one found them."""
        return (
            len(request) < REQUEST_BYTES_MAX
            and Path(program.cwd).is_dir()
            and not any(os.isatty(each) for each in streams)
            and _inherited(program.environment) == self._began_with
        )

    def start(self, request: bytes, streams: list[int]) -> int:
        """Start a program; gives the id of a child of this process."""
        with self._lock:
            # The program belongs to the nearest process that adopts orphans once its parent ended.
            self._adopt(_PR_SET_CHILD_SUBREAPER, 1)
            try:
                socket.send_fds(self._socket, [request], streams)
                return int(self._socket.recv(64))
            finally:
                self._adopt(_PR_SET_CHILD_SUBREAPER, 0)


class WarmPopen(subprocess.Popen):
    """Starts `python -m` of a program of Dray from the warm process, all else as ever."""

    warm: ClassVar[WarmPython | None] = None
    """The process of this run of tests, if it has one."""

    def _execute_child(  # noqa: PLR0917 - as the library calls it
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others
    ):
        _, _, shell, *pipes, _, gid, gids, uid, umask, own_session, group = others
        usual = (executable, preexec_fn, gid, gids, uid) == (None,) * 5 and umask == group == -1
        if usual and close_fds and not (shell or pass_fds) and _is_program(args):
            environment = dict(os.environ if env is None else env)
            theirs = (pipes[0], pipes[3], pipes[5])
            streams = [at if given < 0 else given for at, given in enumerate(theirs)]
            place = os.fspath(cwd or Path.cwd())
            program = _program(args, environment, place, own_session=own_session)
            request = json.dumps(program).encode()
            if self.warm is not None and self.warm.serves(program, request, streams):
                self.pid = self.warm.start(request, streams)
                self._child_created = True
                self._close_pipe_fds(*pipes)
                return
        super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)


def _is_program(args: object) -> bool:
    if not isinstance(args, list | tuple) or list(args[:2]) != [sys.executable, "-m"]:
        return False
    return args[2].startswith(PACKAGES)


def _program(args, environment: dict[str, str], cwd: str, *, own_session: bool) -> Program:
    _, _, module, *arguments = map(os.fspath, args)
    masked = [int(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, ())]
    umask = int(_status("Umask"), 8)
    return Program(module, arguments, environment, cwd, umask, masked, own_session)


def _inherited(environment: Mapping[str, str]) -> object:
    """The variables that Python itself reads when it starts, and what the kernel allows."""
    names = ("PYTHON", "LC_", "LANG", "TZ")
    variables = {name: value for name, value in environment.items() if name.startswith(names)}
    limits = [resource.getrlimit(each) for each in _LIMITS]
    return variables, limits, _status("SigIgn"), os.nice(0), os.sched_getaffinity(0)


def _status(name: str) -> str:
    text = Path("/proc/self/status").read_text("ascii")
    return text.partition(f"\n{name}:")[2].split()[0]


_COLD = subprocess.Popen


class WarmPrograms:
    """The plugin: it starts the process before the first test, if some test starts programs."""

    def pytest_collection_finish(self, session):
        """Start the process, before anything looks at what a test leaves behind."""
        folders = {each.path.relative_to(Path(__file__).parent).parts[0] for each in session.items}
        if folders & FOLDERS and not session.config.option.collectonly:
            WarmPopen.warm = WarmPython()
            subprocess.Popen = WarmPopen

    def pytest_sessionfinish(self):
        """End it."""
        if WarmPopen.warm is not None:
            subprocess.Popen = _COLD
            WarmPopen.warm.end()
            WarmPopen.warm = None


def load() -> None:
    """Load the modules of every program."""
    package = importlib.import_module("dray.cli")
    names = [each.name for each in pkgutil.walk_packages(package.__path__, "dray.cli.")]
    names += ["dray.client.blocking.manager", "dray.client.blocking.queue", "dray.daemon.process"]
    names += ["dray.console.program"]
    for name in names:
        if not name.endswith(".__main__"):
            importlib.import_module(name)


def serve(requests: socket.socket) -> Program | None:
    """Fork for each request; gives the program in its process, nothing at the end."""
    while True:
        request, streams, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, STREAMS)
        if not request:
            return None
        read, write = os.pipe()
        if between := os.fork():
            for each in (*streams, write):
                os.close(each)
            # With its end the tests become the parent of the program.
            os.waitpid(between, 0)
            requests.send(os.read(read, 64))
            os.close(read)
            continue
        between_id = os.getpid()
        if started := os.fork():
            os.write(write, b"%d" % started)
            os._exit(0)
        for each in (read, write):
            os.close(each)
        while os.getppid() == between_id:
            os.sched_yield()
        program = Program(*json.loads(request))
        become(program, streams)
        return program


def become(program: Program, streams: list[int]) -> None:
    """Make this process what a new one would be."""
    if program.own_session:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(program.environment)
    os.chdir(program.cwd)
    os.umask(program.umask)
    sys.path[0] = program.cwd
    time.tzset()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, program.masked)


if __name__ == "__main__":
    # ^C at the terminal is for the tests. It is blocked, not ignored: a program that gets one right
    # after the fork hears it as soon as it can.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    with suppress(BrokenPipeError), socket.socket(fileno=int(sys.argv[1])) as asked:
        load()
        gc.freeze()
        found = serve(asked)
    if found is not None:
        run_to_its_end(found.module, found.arguments)
