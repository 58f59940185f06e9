"""Hostile and broken clients of HTTP for programs: refused, bounded, and nobody else notices."""

from __future__ import annotations

import resource
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import httpx
import pytest


def raw(server, said, *, ends=False):
    """Everything that the server answers to these bytes, until it hangs up.

    `ends`: the client says that nothing more will come.
    """
    host, _, port = server.base.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(said)
        if ends:
            wire.shutdown(socket.SHUT_WR)
        found = bytearray()
        while piece := wire.recv(65536):
            found += piece
    return bytes(found)


def head(client, queue, *lines):
    said = [
        f"POST /v1/queues/{queue}/messages HTTP/1.1",
        "Host: x",
        "Connection: close",
        f"Authorization: Bearer {client.token}",
        *lines,
    ]
    return "\r\n".join(said).encode() + b"\r\n\r\n"


def count(client, queue):
    return client.get(f"/v1/queues/{queue}").json()["message_count"]


SMUGGLED = b"5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Content-Length: 15"),
        ("Content-Length: 5", "Content-Length: 15"),
        ("Content-Length: 5, 15",),
        ("Content-Length: +5",),
        ("Content-Length: -1",),
        ("Content-Length: 0x5",),
        ("Content-Length: 99999999999999999999999",),
        ("Transfer-Encoding: chunked, chunked",),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding: identity",),
        ("Transfer-Encoding : chunked",),
        ("Bad Header: x", "Content-Length: 5"),
        ("Dray-Label: x", "Dray-Label: y", "Content-Length: 5"),
        ("Authorization: Bearer other", "Content-Length: 5"),
    ],
)
def test_a_request_with_two_readings_is_refused_and_sends_nothing(client, queue, server, lines):
    answer = raw(server, head(client, queue, *lines) + SMUGGLED)
    first = answer.split(b"\r\n", 1)[0]
    assert first.split()[1] in (b"400", b"501"), answer
    assert answer.count(b"HTTP/1.1 ") == 1, "what follows is no request"
    assert count(client, queue) == 0


@pytest.mark.parametrize("origin", ["http://x", "HTTPS://x:80", "http://[::1]:7342"])
def test_a_request_that_says_the_whole_address_is_one_for_its_path(client, queue, server, origin):
    said = head(client, queue, "Content-Length: 2").replace(b"POST /", f"POST {origin}/".encode())
    assert raw(server, said + b"ok").startswith(b"HTTP/1.1 201 ")
    assert client.get(f"/v1/queues/{queue}").json()["message_count"] == 1
    said = head(client, queue).replace(f"/v1/queues/{queue}/messages".encode(), origin.encode())
    assert raw(server, said).startswith(b"HTTP/1.1 404 ")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\0" * 100,
        b"GET\r\n\r\n",
        b"GET /v1/queues HTTP/1.1\r\n" + b"X: " + b"y" * 200_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/queues HTTP/1.1\r\n" + b"X: y\r\n" * 30_000 + b"\r\n",
        b"GET /v1/queues HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX: "
        + b"y" * 17_000
        + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200,
    ],
)
def test_bytes_that_are_no_request_are_answered_400(client, server, request_bytes):
    try:
        answer = raw(server, request_bytes)
    except ConnectionError:
        # It hung up while more was on its way.
        answer = b"HTTP/1.1 400"
    assert answer.startswith(b"HTTP/1.1 400"), answer[:200]
    assert client.get("/v1/manager").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/v1/queues/..%2f..%2fetc/messages",
        "/v1/queues/%00/messages",
        "/v1/queues/" + "q" * 3_000,
        "/v1/queues/dray%3A%2F%2F%2F",
        "/v1/queues//messages",
        "/v1/leases/" + "l" * 3_000,
        "/v1/leases/%2e%2e",
        "/v1/uploads/" + "0" * 32 + "-9999999999999999999-9999999999999999999",
        "/v1/transactions/x/commit",
        "/v1/outcome?id=nonsense",
        "/v1/outcome?id=" + "0" * 32 + "%5C99999999999999999999999",
        "/v1/queues/x/receive?wait=1e400",
    ],
)
def test_a_strange_name_is_refused_and_never_a_500(client, path):
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"):
        answer = client.request(method, path, headers={"Tus-Resumable": "1.0.0"})
        assert answer.status_code < 500, (method, path, answer.text)


def unknown_chunked(queue):
    """The head of a request in chunks of somebody who shows no token."""
    lines = [f"POST /v1/queues/{queue}/messages HTTP/1.1", "Host: x", "Transfer-Encoding: chunked"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@pytest.mark.parametrize("chunk", [b"-1\r\nabc\r\n", b"3\r\nabcd\r\n", b"zz\r\n"])
def test_a_chunk_that_is_none_is_answered_once_and_leaves_no_trace_in_the_log(queue, server, chunk):
    before = server.log.stat().st_size
    answer = raw(server, unknown_chunked(queue) + b"5\r\nhello\r\n" + chunk)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1 ") == 1
    said = server.log.read_bytes()[before:]
    assert b"Traceback" not in said, said.decode()


def test_a_body_that_turns_wrong_after_its_answer_leaves_no_trace_in_the_log(queue, server):
    host, _, port = server.base.removeprefix("http://").partition(":")
    before = server.log.stat().st_size
    with socket.create_connection((host, int(port)), timeout=30) as wire:
        wire.sendall(unknown_chunked(queue))
        assert wire.recv(65536).startswith(b"HTTP/1.1 401")
        with suppress(ConnectionError):
            wire.sendall(b"-1\r\n")
            while wire.recv(65536):
                continue
    said = server.log.read_bytes()[before:]
    assert b"Traceback" not in said, said.decode()


def test_a_body_that_breaks_off_sends_nothing(client, queue, server):
    short = head(client, queue, "Content-Length: 100") + b"only this"
    raw(server, short, ends=True)
    large = head(client, queue, "Content-Length: 9000000") + b"x" * 6_000_000
    raw(server, large, ends=True)
    chunked = head(client, queue, "Transfer-Encoding: chunked") + b"5\r\nhel"
    raw(server, chunked, ends=True)
    assert count(client, queue) == 0
    assert client.get(f"/v1/queues/{queue}").json()["byte_count"] == 0


@pytest.mark.parametrize("length", [5, 100_000, 3_000_000])
def test_a_client_that_closes_its_sending_side_gets_its_answers(client, queue, server, length):
    body = head(client, queue, f"Content-Length: {length}") + b"x" * length
    look = f"GET /v1/queues/{queue} HTTP/1.1\r\nHost: x\r\n"
    look += f"Authorization: Bearer {client.token}\r\n\r\n"
    stays = body.replace(b"Connection: close\r\n", b"")
    for said, wanted in ((body, 1), (stays, 1), (2 * stays, 2), (look.encode(), 1)):
        began = time.perf_counter()
        found = raw(server, said, ends=True)
        assert found.count(b"HTTP/1.1 20") == wanted, found
        assert time.perf_counter() - began < 3, "the connection stayed open"
    assert count(client, queue) == 4


def test_a_receive_that_waits_ends_with_its_client_and_one_that_does_not_is_answered(
    client, queue, server
):
    asking = head(client, queue, "Content-Length: 0").replace(b"/messages", b"/receive?wait=20")
    assert raw(server, asking, ends=True) == b""
    at_once = asking.replace(b"?wait=20", b"")
    assert raw(server, at_once, ends=True).startswith(b"HTTP/1.1 204")


def test_stalled_bodies_are_bounded_for_a_caller_and_cost_others_nothing(client, queue, server):
    host, _, port = server.base.removeprefix("http://").partition(":")
    with server.caller("slow") as slow, ExitStack() as stack:
        for _ in range(8):
            wire = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            wire.sendall(head(slow, queue, "Content-Length: 1000", "Expect: 100-continue"))
            # The server reads the body now.
            assert wire.recv(100).startswith(b"HTTP/1.1 100")
        refused = slow.post(f"/v1/queues/{queue}/messages", content=b"one more")
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-bodies")
        assert refused.headers["retry-after"]
        # Another caller sends all the same.
        sent = client.post(f"/v1/queues/{queue}/messages", content=b"fine")
        assert sent.status_code == 201


def test_silent_connections_do_not_shut_the_door(client, queue, server):
    """Neither those that never say anything, nor those that stay after an answer."""
    host, _, port = server.base.removeprefix("http://").partition(":")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    try:
        with ExitStack() as stack:
            for at in range(1_010):
                wire = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
                if at % 2:
                    wire.sendall(b"GET /v1/queues HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert wire.recv(100).startswith(b"HTTP/1.1 401")
            with httpx.Client(base_url=server.base, headers=client.headers) as another:
                sent = another.post(f"/v1/queues/{queue}/messages", content=b"fine")
                assert sent.status_code == 201
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_leases_and_transactions_of_a_caller_are_bounded(client, queue, server):
    with server.caller("many") as many:
        begun = [many.post("/v1/transactions") for _ in range(65)]
        assert [each.status_code for each in begun[:64]] == [201] * 64
        assert (begun[64].status_code, begun[64].json()["code"]) == (429, "too-many-transactions")
        for each in begun[:64]:
            assert many.post(f"{each.headers['location']}/abort").status_code == 204


def test_waiting_receives_of_a_caller_are_bounded_and_refused_quietly(queue, server):
    host, _, port = server.base.removeprefix("http://").partition(":")
    with server.caller("patient") as patient, ExitStack() as stack:
        receive = f"/v1/queues/{queue}/receive"
        # From now on the caller has its connection, for which all of them would stand in line.
        assert patient.post(f"{receive}?wait=0").status_code == 204
        lines = "Host: x", f"Authorization: Bearer {patient.token}", "Content-Length: 0", "", ""
        for _ in range(64):
            wire = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
            wire.sendall("\r\n".join((f"POST {receive}?wait=30 HTTP/1.1", *lines)).encode())
        answers = (patient.post(f"{receive}?wait=0") for _ in range(1_000))
        refused = next(each for each in answers if each.status_code != 204)
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-waits")
    assert "never awaited" not in server.log.read_text()


def test_settles_at_once_receive_once(client, queue):
    client.post(f"/v1/queues/{queue}/messages", content=b"x")
    lease = client.post(f"/v1/queues/{queue}/receive?wait=10").headers["location"]
    with ThreadPoolExecutor(4) as threads:
        settled = list(threads.map(lambda _: client.delete(lease).status_code, range(4)))
    assert settled == [204] * 4
    assert client.post(f"{lease}/abort").status_code == 410
    assert count(client, queue) == 0


def test_no_token_is_in_any_log(server, client):
    httpx.get(f"{server.base}/v1/queues", headers={"Authorization": "Bearer wrong-token-abc"})
    said = server.log.read_text()
    assert client.token not in said
    assert "wrong-token-abc" not in said


def test_strangers_fill_no_log(server):
    before = server.log.read_text()
    upgrade = b"GET /v1/queues HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\n"
    for junk in (b"\0" * 100, b"GET\r\n\r\n", upgrade + b"Upgrade: websocket\r\n\r\n"):
        assert raw(server, junk)[:9] == b"HTTP/1.1 "
    assert server.log.read_text() == before
