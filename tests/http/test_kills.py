"""HTTP for programs through SIGKILL of the server, of the queue manager, and of both."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import httpx
import pytest

from tests.browser.programs import ConsoleProcess
from tests.http.conftest import HttpManager
from tests.integration.commands import until

LONG = os.urandom(6_000_000)


@pytest.fixture
def alone(tmp_path):
    """A queue manager that this test may kill, a caller, and a queue."""
    with HttpManager("alone", tmp_path) as manager, manager.caller("app") as client:
        assert client.put("/v1/queues/q", json={}).status_code == 201
        yield manager, client


def kill_http(manager, client):
    """SIGKILL of the server alone; it is started again at the same address."""
    old = manager.http_pid()
    os.kill(old, signal.SIGKILL)
    _until_it_answers(client)
    assert manager.http_pid() != old


def kill_both(manager, client):
    """SIGKILL of the queue manager; its server ends with it. Both are started again."""
    old = manager.http_pid()
    manager.kill()
    _until_gone(old)
    manager.start()
    _until_it_answers(client)


def _until_gone(pid):
    until(lambda: not Path(f"/proc/{pid}").exists())


def _until_it_answers(client):
    def answers():
        try:
            return client.get("/v1/manager").status_code == 200
        except httpx.TransportError:
            return False

    until(answers)


def count(client):
    return client.get("/v1/queues/q").json()["message_count"]


@pytest.mark.slow
@pytest.mark.parametrize("kill", [kill_http, kill_both])
@pytest.mark.parametrize("body", [b"small", LONG], ids=["message", "large"])
def test_a_key_sends_once_though_the_server_was_killed_before_its_answer(alone, kill, body):
    manager, client = alone
    host, _, port = manager.base.removeprefix("http://").partition(":")
    before = manager.connect_as_owner()
    with socket.create_connection((host, int(port))) as wire, before as owner:
        head = (
            "POST /v1/queues/q/messages HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n"
            f"Authorization: Bearer {client.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        wire.sendall(head.encode() + body)
        # Between the body and the answer: nobody reads the answer, and the message is there.
        until(lambda: owner.queue("q").info().message_count)
    kill(manager, client)
    again = client.post("/v1/queues/q/messages", content=body, headers={"Idempotency-Key": "k"})
    assert again.status_code == 200, again.text
    assert again.headers["idempotency-replayed"] == "true"
    lease = client.post("/v1/queues/q/receive?wait=10")
    assert lease.headers["dray-id"] == again.headers["dray-id"]
    assert client.get(lease.headers["location"]).content == body
    client.delete(lease.headers["location"])
    assert count(client) == 0


@pytest.mark.slow
def test_a_key_sends_once_though_the_server_was_killed_within_the_body(alone):
    manager, client = alone
    host, _, port = manager.base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as wire:
        head = (
            "POST /v1/queues/q/messages HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\n"
            f"Authorization: Bearer {client.token}\r\nContent-Length: {len(LONG)}\r\n\r\n"
        )
        wire.sendall(head.encode() + LONG[:5_000_000])
        kill_http(manager, client)
    again = client.post("/v1/queues/q/messages", content=LONG, headers={"Idempotency-Key": "k"})
    assert again.status_code == 201, again.text
    lease = client.post("/v1/queues/q/receive?wait=10")
    assert client.get(lease.headers["location"]).content == LONG
    client.delete(lease.headers["location"])
    assert count(client) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_both_processes_ends_both_in_good_order(alone, number):
    manager, _ = alone
    server = manager.http_pid()
    # As a terminal does it, and a service manager: first to the one, then to the other.
    os.kill(server, number)
    os.kill(manager.pid, number)
    _until_gone(server)
    manager.stop()
    assert "HTTP server" not in manager.log.read_text()
    assert "Traceback" not in manager.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kill", [kill_http, kill_both])
def test_a_lost_lease_gives_its_message_back_and_its_outcome_tells(alone, kill):
    manager, client = alone
    client.post("/v1/queues/q/messages", content=b"again")
    lease = client.post("/v1/queues/q/receive?wait=10")
    kill(manager, client)
    lost = client.delete(lease.headers["location"])
    assert (lost.status_code, lost.json()["code"]) == (404, "lease-not-found")
    name = lease.headers["dray-receive-id"].replace("%5C", "\\")
    assert client.get("/v1/outcome", params={"id": name}).json()["outcome"] == "aborted"
    again = client.post("/v1/queues/q/receive?wait=10")
    assert client.get(again.headers["location"]).content == b"again"
    client.delete(again.headers["location"])
    told = again.headers["dray-receive-id"].replace("%5C", "\\")
    assert client.get("/v1/outcome", params={"id": told}).json()["outcome"] == "committed"


@pytest.mark.slow
def test_what_is_held_at_a_console_ends_with_its_queue_manager_and_the_message_is_back(tmp_path):
    """The console lives on, and its connection is made anew."""
    with HttpManager("held", tmp_path) as manager:
        with manager.connect_as_owner() as owner:
            token = owner.create_token("app")
            owner.create_queue("q").send_many([b"small", b"x" * 100])
        console = ConsoleProcess(manager.url, tmp_path / "console")
        try:
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=console.address, headers=headers, timeout=30) as client:
                begun = client.post("/v1/transactions").headers["location"]
                assert client.patch(begun).status_code == 204
                first, second = (client.post("/v1/queues/q/receive?wait=10") for _ in range(2))
                assert client.get(first.headers["location"]).content == b"small"
                manager.kill()
                away = client.delete(second.headers["location"])
                assert (away.status_code, away.json()["code"]) == (503, "connection-lost")
                assert away.headers["retry-after"]
                manager.start()
                for lease in (first, second):
                    ended = client.get(lease.headers["location"])
                    assert (ended.status_code, ended.json()["code"]) == (410, "lease-ended")
                renewed = client.patch(begun)
                assert (renewed.status_code, renewed.json()["code"]) == (410, "transaction-ended")
                again = [client.post("/v1/queues/q/receive?wait=10") for _ in range(2)]
                assert [each.headers["dray-size"] for each in again] == ["5", "100"]
                assert [client.delete(e.headers["location"]).status_code for e in again] == [
                    204
                ] * 2
        finally:
            assert console.stop() == 0
        assert console.logged() == ""


@pytest.mark.slow
@pytest.mark.parametrize("kill", [kill_http, kill_both])
def test_an_interrupted_upload_goes_on_after_a_restart(alone, kill):
    from tests.http.test_uploads import create, offset, patch, tus

    manager, client = alone
    where = create(client, "q", len(LONG))
    assert patch(client, where, 0, LONG[:2_500_000]).status_code == 204
    kill(manager, client)
    at = offset(client, where)
    assert "upload-metadata" in client.head(where, headers=tus()).headers
    # Less than one fragment waited in the memory of the server.
    assert 2_500_000 - 256 * 1024 < at <= 2_500_000
    assert patch(client, where, at, LONG[at:4_000_000]).status_code == 204
    kill(manager, client)
    at = offset(client, where)
    assert patch(client, where, at, LONG[at:]).status_code == 204
    kill(manager, client)
    assert offset(client, where) == len(LONG)
    lease = client.post("/v1/queues/q/receive?wait=10")
    assert client.get(lease.headers["location"]).content == LONG
    client.delete(lease.headers["location"])
    assert count(client) == 0
