"""Every documented key of the configuration file, given to the real program in a file."""

from __future__ import annotations

import grp
import os
import re
import signal
import socket
import stat
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import msgspec
import pytest
import trustme

import dray
from dray.daemon.config import ServeOptions
from tests.integration.commands import COMMAND, environment, until
from tests.integration.commands import dray as command

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "configuration.md"
AUTHORITY = trustme.CA()


class Started(NamedTuple):
    """A queue manager that `dray serve --config` runs."""

    ready: str
    process: subprocess.Popen[str]
    folder: Path

    @property
    def url(self):
        """Its first address."""
        return re.search(r"ready at (\S+)", self.ready)[1]

    def connect(self):
        """A program that speaks to it."""
        return dray.connect(self.url)


@contextmanager
def serving(folder, *lines):
    """Run `dray serve --config FILE` in a folder, on a file with these lines, until it is ready."""
    folder.mkdir(exist_ok=True)
    keys = {line.partition(" =")[0] for line in lines}
    usual = {"data": 'data = "queues"', "listen": 'listen = "127.0.0.1:0"', "open": "open = true"}
    if "socket" in keys:
        del usual["listen"]
    given = [*(line for key, line in usual.items() if key not in keys), *lines]
    (folder / "dray.toml").write_text("\n".join(given) + "\n")
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*COMMAND, "serve", "--config", "dray.toml"],
            cwd=folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    try:
        ready = process.stdout.readline()
        assert "ready at" in ready, (folder / "log").read_text()
        yield Started(ready, process, folder)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(100)
        process.stdout.close()


@contextmanager
def silent_peer(folder, *lines):
    """A manager with these options that sent a few messages to one that has stopped answering."""
    with serving(folder / "there") as there, serving(folder / "here", *lines) as here:
        with there.connect() as connected:
            connected.create_queue("orders")
        with here.connect() as connected:
            queue = connected.queue(f"{there.url}/orders")
            queue.send(b"arrives")
            until(lambda: delivery_of(connected, queue).last_ack == 1)
            there.process.send_signal(signal.SIGSTOP)
            for _ in range(5):
                queue.send(bytes(2000))
            yield lambda: delivery_of(connected, queue)


def delivery_of(connected, queue):
    return connected.queue(queue.name).info().delivery


def check_data(folder):
    with serving(folder, 'data = "elsewhere"'):
        assert (folder / "elsewhere" / "storage").is_dir()


def check_listen(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with serving(folder, f'listen = "{address}"') as here:
        assert here.ready.endswith(f" ready at dray://{address}\n")


def check_socket_group(folder):
    group = grp.getgrgid(os.getegid()).gr_name
    with serving(folder, 'socket = "s"', f'socket_group = "{group}"'):
        found = (folder / "s").stat()
        assert (found.st_gid, stat.S_IMODE(found.st_mode)) == (os.getegid(), 0o660)


def check_socket(folder):
    with serving(folder, 'socket = "s"') as here:
        assert here.ready.endswith(f" ready at dray+unix://{folder / 's'}\n")


def check_http(folder):
    own = f'http = "{folder}/metrics.sock"'
    with serving(folder, own), socket.socket(socket.AF_UNIX) as caller:
        caller.connect(str(folder / "metrics.sock"))
        caller.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert caller.recv(100).startswith(b"HTTP/1.1 200 ")


def check_console(folder):
    with serving(folder, f'console = "{folder}/console.sock"') as here:
        assert f"open the link in {folder}/console.sock.url" in here.ready


def check_console_also(folder):
    other = "dray://127.0.0.1:1"
    sock = folder / "console.sock"
    with serving(folder, f'console = "{sock}"', f'console_also = ["{other}"]'):
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(sock)), timeout=60) as client:
            client.get((folder / "console.sock.url").read_text().strip())
            told = client.get(f"http://localhost/story?id={'0' * 32}%5C1").text
        assert f"The queue manager at {other} was not heard" in told


def check_name(folder):
    with serving(folder, 'name = "source"') as here, here.connect() as connected:
        assert 'manager "source"' in here.ready
        assert connected.info().name == "source"


def check_quota(folder):
    with serving(folder, 'quota = "500 MB"') as here, here.connect() as connected:
        assert connected.info().quota == 500_000_000


def check_journal_quota(folder):
    with serving(folder, 'journal_quota = "unlimited"') as here, here.connect() as connected:
        assert connected.info().journal_quota is None


def check_low_water(folder):
    with serving(folder, 'low_water = "1MiB"') as here, here.connect() as connected:
        assert connected.info().low_water == 1 << 20


def check_open(folder):
    with serving(folder, "open = true") as here, here.connect() as connected:
        assert connected.create_queue("orders").name == "orders"
    (folder / "dray.toml").write_text('data = "queues"\nlisten = "127.0.0.1:0"\n')
    said = command("serve", "--config", "dray.toml", cwd=folder)
    assert "would be let in" in said.assert_error("invalid-configuration")


def check_access(folder):
    rule = '[[access]]\nwho = ["user:ada"]\nqueues = ["orders"]\nmay = ["send"]'
    other = '[[access]]\nwho = ["anyone"]\nqueues = ["orders"]\nmay = ["manage"]'
    with serving(folder, "open = true", rule, other) as here, here.connect() as connected:
        queue = connected.create_queue("orders")
        with pytest.raises(dray.AccessDenied, match="anyone may not send at"):
            queue.send(b"1")


def check_peers(folder):
    folder.mkdir(exist_ok=True)
    with serving(folder / "there", 'socket = "s"', 'listen = "127.0.0.1:0"') as there:
        with dray.connect(f"dray+unix://{folder}/there/s") as owner:
            token = owner.create_token("here")
        (folder / "token").write_text(token)
        (folder / "token").chmod(0o600)
        table = f'[[peers]]\naddress = "{there.url}"\ntoken_file = "{folder}/token"'
        with serving(folder / "here", table) as here, here.connect() as connected:
            connected.queue(f"{there.url}/orders").send(b"1")
            until(lambda: delivery_of(connected, connected.queue(f"{there.url}/orders")))


def check_resend_schedule_s(folder):
    with silent_peer(folder, "resend_schedule_s = [0.05]") as delivery:
        until(lambda: delivery().resends > 2)


def check_reconnect_delay_s(folder):
    # The usual longest wait is 5 s: a hundred attempts would take minutes.
    with serving(folder, "reconnect_delay_s = 0.01") as here, here.connect() as connected:
        queue = connected.queue("dray://127.0.0.1:1/orders")
        queue.send(b"waits")
        until(lambda: sum(each.times for each in delivery_of(connected, queue).history) > 100)


def check_window_bytes(folder):
    with silent_peer(folder, "window_bytes = 4096") as delivery:
        # One message of 2,000 bytes and its header: two of them are more than the window.
        until(lambda: 2000 < delivery().in_flight_bytes <= 4096)
        assert (delivery().in_flight, delivery().unacknowledged) == (1, 5)


def check_window_messages(folder):
    with silent_peer(folder, "window_messages = 3") as delivery:
        until(lambda: delivery().in_flight == 3)
        assert delivery().unacknowledged == 5


def check_routes(folder):
    line = 'routes = { "store-17:7340" = "127.0.0.1:1" }'
    with serving(folder, line) as here, here.connect() as connected:
        queue = connected.queue("dray://store-17:7340/orders")
        queue.send(b"waits")
        assert delivery_of(connected, queue).next_hop == "127.0.0.1:1"


def check_addresses(folder):
    with serving(folder, 'addresses = ["depot.example:7340"]') as here, here.connect() as connected:
        orders = connected.create_queue("orders")
        connected.queue("dray://depot.example:7340/orders").send(b"for here")
        assert bytes(orders.receive(timeout=100).body) == b"for here"


def certificates(folder):
    """An authority, and a certificate and key for each of two machines."""
    AUTHORITY.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("localhost", "till"):
        issued = AUTHORITY.issue_cert(name)
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
        issued.private_key_pem.write_to_path(folder / f"{name}.key")


def check_tls_cert(folder):
    certificates(folder)
    lines = [f'tls_cert = "{folder}/localhost.pem"', f'tls_key = "{folder}/localhost.key"']
    with serving(folder / "there", *lines) as there:
        address = there.url.replace("127.0.0.1", "localhost")
        assert address.startswith("drays://")
        with dray.connect(address, ca=folder / "ca.pem") as connected:
            connected.create_queue("orders")


def check_tls_client_ca(folder):
    certificates(folder)
    ca = f'"{folder}/ca.pem"'
    shown = [
        [f'tls_cert = "{folder}/{name}.pem"', f'tls_key = "{folder}/{name}.key"']
        for name in ("localhost", "till")
    ]
    with (
        serving(folder / "there", *shown[0], f"tls_client_ca = {ca}", 'socket = "s"',
                'listen = "127.0.0.1:0"') as there,
        serving(folder / "here", *shown[1], f"tls_ca = {ca}", 'socket = "s"') as here,
    ):  # fmt: skip
        address = there.url.replace("127.0.0.1", "localhost")
        with dray.connect(f"dray+unix://{folder}/there/s") as connected:
            orders = connected.create_queue("orders")
            with pytest.raises(dray.DrayError), dray.connect(address, ca=folder / "ca.pem") as bare:
                bare.info()
            with here.connect() as sender:
                sender.queue(f"{address}/orders").send(b"let in")
            assert bytes(orders.receive(timeout=100).body) == b"let in"


def check_idle_transaction_s(folder):
    with serving(folder, "idle_transaction_s = 0.05") as here, here.connect() as connected:
        orders = connected.create_queue("orders")
        orders.send(b"comes back")
        with connected.transaction() as transaction:
            orders.receive(timeout=100, transaction=transaction)
            # Nobody else could have it before the manager has aborted the transaction.
            with here.connect() as other:
                assert bytes(other.queue("orders").receive(timeout=100).body) == b"comes back"
            with pytest.raises(dray.DrayError):
                transaction.commit()


def check_log_bytes(folder):
    with serving(folder, 'log_bytes = "4MiB"'):
        assert (folder / "queues" / "storage" / "QMLog").stat().st_size == 4 << 20


def check_express_memory(folder):
    with serving(folder, "express_memory = 0") as here, here.connect() as connected:
        assert connected.info().express_memory == 0
        connected.create_queue("fast", transactional=False).send(b"x", recoverable=False)
        until(lambda: list((folder / "queues" / "storage").glob("r*.mq")))


def check_audit(folder):
    with serving(folder, "audit = false") as here:
        handles = Path(f"/proc/{here.process.pid}/fd").iterdir()
        assert not [each for each in handles if "inotify" in str(each.readlink())]


def check_create_status_queue(folder):
    with serving(folder, "create_status_queue = false") as here, here.connect() as connected:
        large = dray.LargeMessageQueue(connected.create_queue("large"))
        with pytest.raises(dray.StatusQueueMissing), large.receive(timeout=0):
            pytest.fail("the status queue was created all the same")


def check_log_level(folder):
    with serving(folder, 'log_level = "info"') as here, here.connect() as connected:
        connected.queue("dray://127.0.0.1:1/orders").send(b"waits")
        until(lambda: '"level":"info"' in (folder / "log").read_text().replace(" ", ""))


CHECKS = {
    "data": check_data,
    "listen": check_listen,
    "socket": check_socket,
    "http": check_http,
    "console": check_console,
    "console_also": check_console_also,
    "socket_group": check_socket_group,
    "name": check_name,
    "open": check_open,
    "access": check_access,
    "peers": check_peers,
    "quota": check_quota,
    "journal_quota": check_journal_quota,
    "low_water": check_low_water,
    "resend_schedule_s": check_resend_schedule_s,
    "reconnect_delay_s": check_reconnect_delay_s,
    "window_bytes": check_window_bytes,
    "window_messages": check_window_messages,
    "routes": check_routes,
    "addresses": check_addresses,
    "tls_cert": check_tls_cert,
    "tls_key": check_tls_cert,
    "tls_ca": check_tls_client_ca,
    "tls_client_ca": check_tls_client_ca,
    "idle_transaction_s": check_idle_transaction_s,
    "log_bytes": check_log_bytes,
    "express_memory": check_express_memory,
    "audit": check_audit,
    "create_status_queue": check_create_status_queue,
    "log_level": check_log_level,
}


def documented():
    """The keys in the first table of the page."""
    options = PAGE.read_text("utf-8").partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", options, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`(\w+)`", row)}


def test_every_documented_key_is_driven_here_and_every_key_is_documented():
    assert documented() == set(CHECKS)
    assert documented() == {field.name for field in msgspec.structs.fields(ServeOptions)}


@pytest.mark.parametrize("key", CHECKS)
def test_a_documented_key_in_a_file_does_what_the_page_says(key, tmp_path):
    CHECKS[key](tmp_path)


def test_the_example_of_the_page_starts_a_queue_manager(tmp_path):
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    ours = example.replace("/var/lib/dray", f"{tmp_path}/d").replace("/run/dray", f"{tmp_path}")
    with serving(tmp_path, *ours.replace(':7340"\nsocket', ':0"\nsocket').splitlines()) as here:
        assert 'manager "source"' in here.ready


def test_the_command_line_wins_over_the_file(tmp_path):
    (tmp_path / "dray.toml").write_text('data = "of the file"\nlisten = "nowhere"\n')
    said = command(
        "serve", "--config", "dray.toml", "--listen", "no address", cwd=tmp_path
    ).assert_error("invalid-configuration")
    assert "'no address'" in said


@pytest.mark.parametrize("arguments", [[], ["--config", "dray.toml"]])
def test_a_data_directory_that_is_named_nowhere_is_asked_for(arguments, tmp_path):
    (tmp_path / "dray.toml").write_text('name = "source"\n')
    said = command("serve", *arguments, cwd=tmp_path).assert_error("invalid-configuration")
    assert "--data DIR" in said
    assert "--config" in said
