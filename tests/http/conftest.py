"""A queue manager with `dray serve --http`, and callers with a token."""

from __future__ import annotations

import itertools
import re

import httpx
import pytest

from dray.testing.processes import ManagerProcess

NUMBERS = itertools.count(1)
READY = re.compile(r"; HTTP at (http://[^\s]+)")


RULES = """
[[access]]
who = ["token:app"]
may = ["manage"]
queues = ["*"]

[[access]]
who = ["*"]
may = ["send", "peek", "receive"]
queues = ["*"]
"""
"""Only one caller manages; each may do everything else."""


class HttpManager(ManagerProcess):
    """A queue manager process that answers `/v1`."""

    def __init__(self, name, folder, *options):
        config = folder / f"{name}.toml"
        config.write_text(RULES)
        more = ["--config", str(config), *options]
        super().__init__(name, folder, ["--http", "127.0.0.1:0", *more])
        self.base = ""

    def start(self):
        super().start()
        self.base = READY.findall(self.log.read_text())[-1]
        # The same port after a restart.
        self._options[1] = self.base.removeprefix("http://")

    def caller(self, name):
        """A client with a token of its own."""
        with self.connect_as_owner() as manager:
            token = manager.create_token(name)
        return self.client(token)

    def client(self, token):
        """A client that shows a token."""
        headers = {"Authorization": f"Bearer {token}"}
        # Each request has a connection of its own, which is gone with its test.
        limits = httpx.Limits(max_keepalive_connections=0)
        client = httpx.Client(base_url=self.base, headers=headers, timeout=60, limits=limits)
        client.token = token
        return client

    def connect_as_owner(self):
        import dray

        return dray.connect(f"dray+unix://{self.data}/dray.sock")

    def http_pid(self):
        """The id of the HTTP process."""
        from pathlib import Path

        children = Path(f"/proc/{self.pid}/task").glob("*/children")
        found = " ".join(each.read_text() for each in children).split()
        for each in found:
            if b"dray.console.v1" in Path(f"/proc/{each}/cmdline").read_bytes():
                return int(each)
        raise AssertionError(found)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with HttpManager("http", tmp_path_factory.mktemp("http")) as manager:
        yield manager


@pytest.fixture(scope="module")
def client(server):
    with server.caller("app") as client:
        yield client


@pytest.fixture
def queue(client, request):
    name = f"{request.node.function.__name__[:60]}-{next(NUMBERS)}"
    assert client.put(f"/v1/queues/{name}", json={}).status_code == 201
    return name


def received(client, queue):
    """Take a message and settle it; its lease, and its body."""
    lease = client.post(f"/v1/queues/{queue}/receive?wait=10")
    assert lease.status_code == 201
    body = client.get(lease.headers["location"]).content
    assert client.delete(lease.headers["location"]).status_code == 204
    return lease, body
