"""What the tests of whole programs share: a process that has loaded the command line, a manager."""

from __future__ import annotations

import socket
import uuid

import pytest

import dray


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    """One queue manager for the tests of a module."""
    with dray.open(tmp_path_factory.mktemp("manager") / "data") as manager:
        manager.create_queue("statusq")
        yield manager


@pytest.fixture
def queue(manager):
    """A queue of the test's own."""
    return manager.create_queue(f"files-{uuid.uuid4().hex}")


@pytest.fixture
def address():
    """An address where nothing listens yet."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
