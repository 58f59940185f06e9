"""Files through the console: constant memory, and nothing lost when either end goes away."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
from urllib.parse import urlsplit

import pytest

import dray
from benches.processes import peak, reset_peak
from tests.browser.programs import ConsoleProcess, managed

pytestmark = pytest.mark.slow
MIB = 1 << 20
QUEUE = "largemessageq"
HELD = re.compile(r'data-id="([^"]+)"')


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with managed(tmp_path_factory.mktemp("files")) as url:
        yield url


@pytest.fixture
def console(url, tmp_path):
    with dray.connect(url) as manager:
        for each in {each.name for each in manager.queues()} & {QUEUE, "statusq"}:
            manager.delete_queue(each)
    console = ConsoleProcess(url, tmp_path / "console")
    yield console
    assert console.stop() == 0
    assert console.logged() == ""


@pytest.fixture
def client(console):
    with console.client() as client:
        client.headers["Dray-Fragment"] = "1"
        yield client


@pytest.fixture
def manager(url):
    with dray.connect(url) as manager:
        yield manager


def held(answer):
    assert answer.status_code == 200, answer.text
    return HELD.search(answer.text)[1]


def test_a_large_file_passes_the_console_in_constant_memory(console, client, manager):
    pieces = 256
    before = reset_peak(console.pid)
    sent = client.put(
        "/sample/sent/large?label=big&fragment_size=0", content=(bytes(MIB) for _ in range(pieces))
    )
    assert sent.status_code == 200, sent.text
    name = held(client.post("/sample/receive", data={"drop": ""}))
    size = 0
    with client.stream("GET", f"/sample/received/{name}") as body:
        for piece in body.iter_raw():
            size += len(piece)
    assert size == pieces * MIB
    assert client.post(f"/sample/received/{name}/keep", data={"a": ""}).status_code == 200
    assert manager.queue(QUEUE).info().message_count == 0
    assert peak(console.pid) - before <= 64 * MIB


def test_a_body_arrives_as_it_was_sent_whatever_pieces_it_came_in(console, client, manager):
    body = os.urandom(3_000_000)
    place = urlsplit(console.address)
    ((name, value),) = client.cookies.items()
    head = (
        f"PUT /sample/sent/large?label=f HTTP/1.1\r\nHost: {place.netloc}\r\n"
        f"Origin: {console.address}\r\nCookie: {name}={value}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode()
    second = f"GET /sample/queue HTTP/1.1\r\nHost: {place.netloc}\r\nConnection: close\r\n\r\n"
    told = head + body + second.encode()
    with socket.create_connection((place.hostname, place.port)) as sock:
        at, chance = 0, random.Random(1)
        while at < len(told):
            length = chance.choice((1, 50, 1_000, 65_536, 300_000))
            sock.sendall(told[at : at + length])
            at += length
        answers = b"".join(iter(lambda: sock.recv(65_536), b""))
    # The first answer is that of the form, the second that of a request without a session.
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"303", b"401"]
    with dray.LargeMessageQueue(manager.queue(QUEUE)).receive(timeout=10) as message:
        assert message.body() == body


def test_an_upload_that_breaks_off_leaves_nothing_in_the_queue(console, client, manager):
    manager.create_queue(QUEUE, exist_ok=True)
    place = urlsplit(console.address)
    with socket.create_connection((place.hostname, place.port)) as broken:
        ((name, value),) = client.cookies.items()
        broken.sendall(
            f"PUT /sample/sent/large?fragment_size=1000 HTTP/1.1\r\nHost: {place.netloc}\r\n"
            f"Origin: {console.address}\r\nCookie: {name}={value}\r\n"
            "Content-Length: 100000000\r\n\r\n".encode()
            + bytes(64 * MIB)
        )
    # The sockets between hold a few megabytes, so most of it was in the transaction.
    assert client.put("/sample/sent/large?label=y", content=b"whole").status_code == 200
    (only,) = manager.queue(QUEUE).contents()
    assert only.label == "y"


def test_a_browser_that_goes_away_while_it_receives_loses_nothing(console, client, manager):
    body = os.urandom(3 * MIB)
    manager.create_queue(QUEUE, exist_ok=True)
    large = dray.LargeMessageQueue(manager.queue(QUEUE), fragment_size=100_000)
    large.send(body)
    name = held(client.post("/sample/receive", data={"drop": ""}))
    with client.stream("GET", f"/sample/received/{name}") as answer:
        next(answer.iter_raw())
    assert console.stop() == 0
    with large.receive(timeout=30) as message:
        assert message.body() == body


def test_a_received_file_is_found_by_its_visitor_alone(console, client, manager):
    manager.create_queue(QUEUE, exist_ok=True)
    dray.LargeMessageQueue(manager.queue(QUEUE)).send(b"mine", label="mine")
    name = held(client.post("/sample/receive", data={"drop": ""}))
    with console.client() as stranger:
        for method, path in (("GET", ""), ("POST", "/keep"), ("POST", "/give-back")):
            answer = stranger.request(
                method, f"/sample/received/{name}{path}", headers={"Dray-Fragment": "1"}
            )
            assert "mine" not in answer.text
            assert answer.status_code == 400
    body = client.get(f"/sample/received/{name}")
    assert body.content == b"mine"
    assert body.headers["content-disposition"].startswith("attachment; ")
    assert body.headers["content-type"] == "application/octet-stream"
    assert client.post(f"/sample/received/{name}/give-back", data={"a": ""}).status_code == 200
    assert manager.queue(QUEUE).info().message_count == 3


def test_a_received_page_is_saved_and_never_shown(client, manager):
    manager.create_queue(QUEUE, exist_ok=True)
    dray.LargeMessageQueue(manager.queue(QUEUE)).send(
        b"<html><script>1</script>", label='../../"\r\nSet-Cookie: a=b;.html'.replace("\r\n", " ")
    )
    name = held(client.post("/sample/receive", data={"drop": ""}))
    for query in ("", "?shown"):
        headers = client.get(f"/sample/received/{name}{query}").headers
        assert headers["content-type"] == "application/octet-stream"
        assert headers["content-disposition"].startswith("attachment; filename*=UTF-8''Received")
        assert "/" not in headers["content-disposition"].partition("''")[2]
        assert headers["x-content-type-options"] == "nosniff"
    client.post(f"/sample/received/{name}/give-back", data={"a": ""})


def test_sends_go_on_while_the_console_hangs(console, client, manager):
    queue = manager.create_queue("beside", exist_ok=True)
    for _ in range(3):
        client.get("/sample/queue")
    os.kill(console.pid, signal.SIGSTOP)
    try:
        for number in range(500):
            queue.send(b"%d" % number)
    finally:
        os.kill(console.pid, signal.SIGCONT)
    assert queue.purge() == 500
    assert client.get("/sample/queue").status_code == 200
