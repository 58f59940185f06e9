"""The peers' servers: on loopback, on free ports, with data directories of their own.

Each runs in a session of its own and is ended by its id. `those_here` says, in one line, why a
peer cannot be measured here.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from dray.errors import DrayError
from dray.testing.processes import uninterrupted

READY_WITHIN_S = 180.0
STOP_WITHIN_S = 30.0
# Debian's own /usr/sbin/rabbitmq-server changes to the user rabbitmq; this is what it runs there.
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"
EPMD = "epmd"
PEERS_HOME = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dray" / "peers"
"""What `make peers` unpacks."""
SYNC_ALWAYS = "always"
_Figure = TypeVar("_Figure")
_DISK_USAGE = re.compile("<max-disk-usage>.*?</max-disk-usage>")
"""Artemis takes no messages on a disk that is nine tenths full, as many of developers are."""


def those_here(
    peers: Iterable[tuple[str, str, str, Callable[[], _Figure]]],
) -> Iterator[tuple[str, _Figure]]:
    """Measure each peer, given by name, program, Python module and how; say why one is left out."""
    for name, program, module, measure in peers:
        if lacking := _missing(program, module):
            print(f"{name} is left out: {lacking}")
            continue
        try:
            yield name, measure()
        except DrayError as error:
            print(f"{name} is left out: {error}")


def _missing(program: str, module: str) -> str:
    """What is not installed of a peer; empty if all is there."""
    if shutil.which(program) is None:
        return f"{program} is not installed: make peers"
    if module and importlib.util.find_spec(module) is None:
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
    with _running([nats_program(), "--config", str(config)], folder, _is_open(port)):
        yield f"nats://127.0.0.1:{port}"


@contextmanager
def artemis(folder: Path, port: int = 0, bridge_to: int = 0) -> Iterator[str]:
    """An Artemis broker with the journal that it makes by itself; its port.

    With `bridge_to` it forwards its queue to the broker at that port.
    """
    port = port or free_port()
    made = subprocess.run(
        [
            artemis_program(), "create", str(folder), "--silent", "--nio", "--no-web",
            "--allow-anonymous", "--user", "bench", "--password", "bench", "--host", "127.0.0.1",
            "--default-port", str(port), "--no-amqp-acceptor", "--no-hornetq-acceptor",
            "--no-mqtt-acceptor", "--no-stomp-acceptor", "--queues", "bench",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise DrayError(f"artemis create failed and said: {made.stderr.strip().splitlines()[-1:]}")
    config = folder / "etc" / "broker.xml"
    said = _DISK_USAGE.sub("<max-disk-usage>-1</max-disk-usage>", config.read_text())
    bridge = _bridge(bridge_to) if bridge_to else ""
    config.write_text(said.replace("</core>", bridge + "</core>"))
    with _running([str(folder / "bin" / "artemis"), "run"], folder, _is_open(port)):
        yield str(port)


def _bridge(port: int) -> str:
    return (
        f'<connectors><connector name="next">tcp://127.0.0.1:{port}</connector></connectors>'
        '<bridges><bridge name="bench"><queue-name>bench</queue-name>'
        "<forwarding-address>bench</forwarding-address>"
        "<static-connectors><connector-ref>next</connector-ref></static-connectors>"
        "</bridge></bridges>"
    )


def artemis_program() -> str:
    """The program that makes brokers, as `make peers` has unpacked it."""
    found = sorted(PEERS_HOME.glob("apache-artemis-*/bin/artemis"))
    return str(found[-1]) if found else "artemis"


def nats_program() -> str:
    """The server of the Python package, which is newer than Debian's, or the one in the path."""
    own = Path(sys.executable).with_name("nats-server")
    return str(own) if own.exists() else "nats-server"


@contextmanager
def rabbitmq(folder: Path, shovel_to: int = 0) -> Iterator[int]:
    """A RabbitMQ node in `folder`; its port.

    With `shovel_to` it moves what comes into its queue to the node at that port.
    """
    port, distribution, mapper = free_port(), free_port(), free_port()
    folder.mkdir()
    (folder / "plugins").write_text("[rabbitmq_shovel].\n" if shovel_to else "[].\n")
    if shovel_to:
        (folder / "advanced.config").write_text(_shovel(port, shovel_to))
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
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    with ExitStack() as stack:
        names = [EPMD, "-port", str(mapper), "-address", "127.0.0.1"]
        stack.enter_context(_running(names, folder, _is_open(mapper), environment))
        stack.enter_context(_running([RABBITMQ], folder, _is_open(port), environment))
        yield port


def _shovel(port: int, other: int) -> str:
    declared = (
        "{declarations, [{'queue.declare', [{queue, <<\"bench\">>}, durable]}]}, "
        "{protocol, amqp091}"
    )
    return (
        "[{rabbitmq_shovel, [{shovels, [{bench, ["
        f'{{source, [{{uris, ["amqp://127.0.0.1:{port}"]}}, {declared},'
        ' {queue, <<"bench">>}, {prefetch_count, 100}]},'
        f'{{destination, [{{uris, ["amqp://127.0.0.1:{other}"]}}, {declared},'
        ' {publish_fields, [{exchange, <<>>}, {routing_key, <<"bench">>}]}]},'
        "{ack_mode, on_confirm}, {reconnect_delay, 1}]}]}]}].\n"
    )


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
