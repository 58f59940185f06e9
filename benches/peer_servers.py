"""The peers' servers: on loopback, on free ports, with data directories of their own.

Each runs in a session of its own and is ended by its id. `missing` says, in one line, why a peer
cannot be measured here.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dray.errors import DrayError
from dray.testing.interrupts import uninterrupted

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0
# Debian's own /usr/sbin/rabbitmq-server changes to the user rabbitmq; this is what it runs there.
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
EPMD = "epmd"
SYNC_ALWAYS = "always"


def missing(program: str, module: str) -> str:
    """What is not installed of a peer; empty if all is there."""
    if shutil.which(program) is None:
        return f"{program} is not installed: make peers"
    if importlib.util.find_spec(module) is None:
        return f"the Python module {module} is not installed: make peers"
    return ""


@contextmanager
def nats(folder: Path, sync: str = "") -> Iterator[str]:
    """A nats-server with JetStream in `folder`; its URL.

    `sync` is its `sync_interval`: by default what was answered is synced within two minutes;
    "always" syncs before the answer, and is refused by servers before 2.10.
    """
    port = free_port()
    folder.mkdir()
    lines = [
        f'listen: "127.0.0.1:{port}"',
        f'jetstream {{ store_dir: "{folder / "data"}", max_file_store: 64GB',
        *([f"  sync_interval: {sync}"] if sync else []),
        "}",
    ]
    config = folder / "nats.conf"
    config.write_text("\n".join(lines) + "\n")
    with _running(["nats-server", "--config", str(config)], folder, _is_open(port)):
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def rabbitmq(folder: Path) -> Iterator[int]:
    """A RabbitMQ node in `folder`; its port."""
    port, distribution, mapper = free_port(), free_port(), free_port()
    folder.mkdir()
    (folder / "plugins").write_text("[].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{port}\ndisk_free_limit.absolute = 64MB\n"
    )
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": "dray-bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    with ExitStack() as stack:
        names = [EPMD, "-port", str(mapper), "-address", "127.0.0.1"]
        stack.enter_context(_running(names, folder, _is_open(mapper), environment))
        stack.enter_context(_running([RABBITMQ], folder, _is_open(port), environment))
        yield port


@contextmanager
def redis(folder: Path) -> Iterator[str]:
    """A Redis server that syncs before each answer; its Unix socket."""
    folder.mkdir()
    where = folder / "s"
    options = ["--port", "0", "--unixsocket", str(where), "--dir", str(folder), "--save", ""]
    command = ["redis-server", *options, "--appendonly", "yes", "--appendfsync", SYNC_ALWAYS]
    with _running(command, folder, where.is_socket):
        yield str(where)


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """A PostgreSQL server as it comes; the folder of its Unix socket."""
    folder.mkdir()
    account: list[str] = []
    if not os.getuid():
        # It refuses to run as root.
        account = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        shutil.chown(folder, "postgres")
    data = str(folder / "data")
    made = subprocess.run(
        [*account, postgres_program("initdb"), "-D", data, "-U", "postgres", "-A", "trust"],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
    if made.returncode:
        raise DrayError(f"initdb failed and said: {made.stderr.strip().splitlines()[-1:]}")
    options = ["-D", data, "-k", str(folder), "-c", "listen_addresses=", "-c", "max_connections=80"]
    command = [*account, postgres_program("postgres"), *options]
    with _running(command, folder, (folder / ".s.PGSQL.5432").is_socket):
        yield str(folder)


def postgres_program(name: str) -> str:
    """A program of PostgreSQL; Debian has one folder for each version, none of them in the path."""
    versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=_version_of)
    return str(versions[-1]) if versions else name


def _version_of(program: Path) -> int:
    return int(program.parent.parent.name)


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def _is_open(port: int) -> Callable[[], bool]:
    def tried() -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", port)) == 0

    return tried


@contextmanager
def _running(
    command: Sequence[str],
    folder: Path,
    is_ready: Callable[[], bool],
    environment: dict[str, str] | None = None,
) -> Iterator[None]:
    log = folder / f"{Path(command[0]).name}.log"
    with log.open("wb") as said, uninterrupted():
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            env=os.environ | (environment or {}), start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + READY_WITHIN_S
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                words = log.read_text(errors="replace").strip().splitlines() or ["nothing"]
                raise DrayError(f"{command[0]} did not start and said: {words[-1]}")
            time.sleep(0.05)
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a server and what it started: its session is a process group of its own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is None:
            os.killpg(process.pid, number)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            continue
        return
