"""`dray serve` without an address: a socket of its owner, found without one, and no port."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
from pathlib import Path

import pytest

import dray
from tests.integration.commands import COMMAND, environment, finish

pytestmark = pytest.mark.slow

READY = re.compile(r"ready at dray\+unix://(\S+)\n$")


@pytest.fixture
def account(tmp_path, monkeypatch):
    """An account of its own: its runtime directory, and the environment of its programs."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("DRAY_URL", raising=False)
    (tmp_path / "run").mkdir(mode=0o700)
    return tmp_path


def serve(account):
    return subprocess.Popen(
        [*COMMAND, "serve", "--data", str(account / "data")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )


def listening_on_tcp(process):
    """Inodes of listening TCP sockets that a process holds."""
    held = {str(each.readlink()) for each in Path(f"/proc/{process.pid}/fd").iterdir()}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{process.pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return [row for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]


def test_serve_without_an_address_opens_its_owners_socket_and_no_port(account):
    process = serve(account)
    try:
        line = process.stdout.readline().decode()
        assert READY.search(line)[1] == str(account / "data" / "dray.sock")
        assert not listening_on_tcp(process)
        path = account / "data" / "dray.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (account / "run" / "dray.sock").readlink() == path
        with dray.connect() as manager:
            manager.create_queue("orders").send(b"1")
        listed = subprocess.run(
            [*COMMAND, "queue", "show", "orders"],
            capture_output=True,
            env=environment(),
            check=True,
        )
        assert b"orders" in listed.stdout
    finally:
        process.send_signal(signal.SIGTERM)
        said = finish(process)
    assert (said.status, said.err) == (0, "")
    assert not (account / "run" / "dray.sock").is_symlink()
    with pytest.raises(dray.ConnectionLost, match="is `dray serve` running there"):
        dray.connect()


def test_the_neighbour_gets_nothing(account):
    """Another account of the machine, really: every directory is open to it, the socket is not."""
    if os.geteuid() != 0:
        pytest.skip("THE NEIGHBOUR IS NOT TESTED: only root can become another account")
    from tests.children import Child

    process = serve(account)
    try:
        process.stdout.readline()
        (account / "data").chmod(0o755)
        account.chmod(0o755)

        def visit():
            os.chdir(account)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            import socket

            from dray.net.doors import SOCKET_NAME

            try:
                with socket.socket(socket.AF_UNIX) as sock:
                    sock.connect(f"data/{SOCKET_NAME}")
            except PermissionError:
                return "refused"
            return "let in"

        assert Child(visit).result() == "refused"
    finally:
        process.send_signal(signal.SIGTERM)
        finish(process)
