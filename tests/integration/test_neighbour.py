"""Another account of the same machine, really: it gets nothing of a queue manager."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import tempfile
from pathlib import Path

import pytest

import dray
from tests.children import Child
from tests.integration.commands import started

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0, reason="NOT PROVEN HERE: only root can become another account"
    ),
]


@pytest.fixture
def folder():
    """A directory that every account may enter: only our own modes protect what is in it."""
    made = Path(tempfile.mkdtemp(prefix="dray-neighbour-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


def as_neighbour(act):
    """Do something in a process of the account `nobody`, and give its result."""
    account = pwd.getpwnam("nobody")

    def become_and_act():
        os.setgroups([])
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
        return act()

    return Child(become_and_act).result()


def denied(act):
    """The name of the error by which an act is refused; "" if it succeeds."""
    try:
        act()
    except (OSError, dray.DrayError) as error:
        return type(error).__name__
    return ""


def test_the_neighbour_gets_nothing(folder):
    data, sock = folder / "data", folder / "dray.sock"
    with dray.open(data) as owner:
        token = owner.create_token("till")
        owner.create_queue("orders").send(b"private")
        owner.backup(folder / "backup.dray")
    files = [each for each in data.rglob("*") if each.is_file()]
    assert files
    serve = ("serve", "--data", data, "--socket", sock, "--listen", "127.0.0.1:0")
    with started(*serve) as process:
        address = re.search(r"dray://\S+", process.stdout.readline().decode())[0]
        with dray.connect(f"dray+unix://{sock}") as owner:
            # Loads here what the other account may not be able to read.
            assert owner.queue("orders").peek(0).body == b"private"
            with pytest.raises(dray.AccessDenied):
                dray.connect(address)

        def attempts():
            found = {str(each): denied(each.read_bytes) for each in files}
            found["list"] = denied(lambda: list(data.iterdir()))
            found["plant"] = denied((data / "dray.sock").touch)
            found["backup"] = denied((folder / "backup.dray").read_bytes)
            with socket.socket(socket.AF_UNIX) as caller:
                found["socket"] = denied(lambda: caller.connect(str(sock)))
            found["tcp"] = denied(lambda: dray.connect(address))
            found["guess"] = denied(lambda: dray.connect(address, token=token[::-1]))
            return found

        found = as_neighbour(attempts)
        with dray.connect(f"dray+unix://{sock}") as owner:
            assert owner.queue("orders").info().message_count == 1
    tcp = {found.pop("tcp"), found.pop("guess")}
    assert tcp == {"AccessDenied"}
    assert set(found.values()) == {"PermissionError"}, found
