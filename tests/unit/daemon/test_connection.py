"""One connection: what bad bytes do, who is kept waiting, and how it ends."""

from __future__ import annotations

import gc
import select
import socket
import tracemalloc
from contextlib import suppress

import pytest

from dray.daemon.limits import OUTBOX_ITEMS_MAX, SPARE_BODIES_MAX
from dray.daemon.sockets.tuning import tune
from dray.errors import ProtocolError
from dray.model.limits import FRAME_BODY_BYTES_MAX
from dray.wire import frames, large_frames, message_frames, queue_frames
from tests.unit.daemon.raw_client import RawClient, connected

GARBAGE = [
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    bytes(64),
    b"\xff" * 64,
    frames.encode_frame(queue_frames.Describe())[:4]
    + b"\x02"
    + frames.encode_frame(queue_frames.Describe())[5:],
    frames.encode_frame(queue_frames.Describe())[:-1] + b"\xff",
    frames.FRAME_HEADER.pack(b"DRAY", 1, 19, 0, 1, 1 << 31, 0, 0),
    frames.FRAME_HEADER.pack(b"DRAY", 1, 200, 0, 1, 0, 0, 0),
]


def takes_more(sock: socket.socket, within_s: float) -> bool:
    """Whether bytes can be sent; a long suite has more files open than select() can name."""
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(within_s * 1000))


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("piece", [1, 1000])
def test_bytes_that_are_no_frame_are_answered_and_end_that_connection_only(echo, garbage, piece):
    with echo.client() as other, echo.tcp_client() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for start in range(0, len(garbage), piece):
                client.socket.sendall(garbage[start : start + piece])
        except (BrokenPipeError, ConnectionResetError):
            assert piece == 1, "a garbled message in one piece is taken whole"
        failed = client.hear_head(frames.Failed)
        assert failed.error == ProtocolError.code
        assert client.is_hung_up()
        assert isinstance(other.ask(queue_frames.Describe()).head, frames.Done)


def test_last_words_are_heard_by_one_who_keeps_talking(echo):
    """Unread input must not make the kernel throw away what we said."""
    with echo.tcp_client() as client:
        echo.gate.close()
        client.say(message_frames.Commit(1, 0), 1)
        assert echo.gate.waiting.wait(100)
        client.socket.sendall(b"garbage" * 10_000)
        echo.gate.open.set()
        client.hear_head(frames.Done)
        assert client.hear_head(frames.Failed).error == ProtocolError.code
        assert client.is_hung_up()


def test_frames_in_single_bytes_are_understood(echo):
    with echo.client() as client:
        for byte in frames.encode_frame(queue_frames.Describe(), 5) * 2:
            client.socket.sendall(bytes([byte]))
        assert [client.hear().request_id for _ in range(2)] == [5, 5]


def test_a_session_ends_when_the_client_hangs_up_in_mid_frame(echo, wait_until):
    client = echo.client()
    client.ask(queue_frames.Describe())
    client.socket.sendall(
        frames.encode_frame(message_frames.Send(0, 0, [], []), 1, 1 << 20) + b"x" * 1000
    )
    assert echo.manager.open_sessions == 1
    client.socket.close()
    wait_until(lambda: echo.manager.open_sessions == 0)


@pytest.fixture
def without_collector():
    """Nothing frees what holds itself."""
    gc.collect()
    gc.disable()
    tracemalloc.start()
    yield
    tracemalloc.stop()
    gc.enable()


def test_frames_that_were_cut_off_leave_no_memory_behind(echo, wait_until, without_collector):
    (server,) = echo.servers
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(8):
        with echo.client() as client:
            client.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 100_000)
            client.socket.sendall(
                frames.encode_frame(message_frames.Send(0, 0, [], []), 1, 1 << 20) + b"x" * 1000
            )
            wait_until(lambda: server._around.intake.bytes_held > 1 << 20)
        wait_until(lambda: echo.manager.open_sessions == 0)
    after, most = tracemalloc.get_traced_memory()
    assert most - before > FRAME_BODY_BYTES_MAX, "the memory of a large frame was seen"
    assert after - before < FRAME_BODY_BYTES_MAX


def test_a_session_that_the_manager_ends_hears_what_was_said_before(echo, wait_until):
    with echo.client() as client:
        client.say(message_frames.Abort(1), 4)
        assert client.hear().request_id == 4
        assert client.is_hung_up()
    wait_until(lambda: echo.manager.open_sessions == 0)


@pytest.mark.slow
def test_one_who_does_not_fetch_answers_is_not_read_from(echo):
    asked = OUTBOX_ITEMS_MAX * 8
    with echo.client() as client, echo.client() as other:
        client.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 20_000)
        request = frames.encode_frame(large_frames.ReadPart(0, 0, 0, 20_000), 2)
        pending, sent = memoryview(request * asked), 0
        client.socket.setblocking(False)
        while takes_more(client.socket, within_s=0.5):
            sent += client.socket.send(pending[sent : sent + 65_536])
        handled = len(echo.manager.events)
        assert handled < asked / 2
        # Others are served, and nothing is lost once the answers are fetched.
        assert isinstance(other.ask(queue_frames.Describe()).head, frames.Done)
        client.socket.settimeout(100)
        for _ in range(sent // len(request)):
            assert len(client.hear().body) == 20_000


def ask_without_fetching(client, is_stopped) -> int:
    """Send requests until `is_stopped`; how many there were."""
    request = frames.encode_frame(large_frames.ReadPart(0, 0, 0, 20_000), 2)
    pending, sent = memoryview(request * 100_000), 0
    # So that few requests lie in the kernel, all of which will be answered.
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    client.socket.setblocking(False)
    while not is_stopped():
        assert sent < len(pending), "the connection is read from without end"
        with suppress(BlockingIOError):
            sent += client.socket.send(pending[sent : sent + 10 * len(request)])
    client.socket.settimeout(100)
    return sent // len(request)


def is_held(connection, more_than) -> bool:
    """Whether it stays unread: beyond a bound unsent, and the kernel takes no more of it.

    A moment earlier the kernel still takes some, and a caller that had its share of time is not
    read from for that round.
    """
    unsent_stays = connection._writing and connection._unsent > more_than
    return unsent_stays and not connection._reading


def connections(echo):
    (server,) = echo.servers
    return list(server._numbers)


def test_while_all_leave_much_unfetched_only_those_are_read_from_who_fetch(
    echo, wait_until, monkeypatch
):
    monkeypatch.setattr("dray.daemon.sockets.surroundings.OUTBOX_TOTAL_BYTES_MAX", 2_000)
    monkeypatch.setattr("dray.daemon.sockets.connection.OUTBOX_BYTES_WHILE_TIGHT", 500)
    with echo.client() as client, echo.client() as other:
        client.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 20_000)
        wait_until(lambda: len(connections(echo)) == 2)
        (server,) = echo.servers
        around, (held, _) = server._around, connections(echo)
        asked = ask_without_fetching(client, lambda: is_held(held, 500))
        assert around.is_tight("")
        for _ in range(10):
            assert isinstance(other.ask(queue_frames.Describe()).head, frames.Done)
        for _ in range(asked):
            assert len(client.hear().body) == 20_000
        wait_until(lambda: held._reading and around.unsent_bytes == 0)


def test_a_caller_that_fetches_nothing_keeps_no_other_from_being_read(
    echo, wait_until, monkeypatch
):
    monkeypatch.setattr("dray.daemon.sockets.surroundings.OUTBOX_TOTAL_BYTES_MAX", 200_000)
    monkeypatch.setattr("dray.daemon.sockets.connection.OUTBOX_BYTES_WHILE_TIGHT", 10_000)
    with echo.session_of("user:ada") as ada, echo.session_of("user:bob") as bob:
        ada.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 20_000)
        bob.ask(queue_frames.Describe())
        (server,) = echo.servers
        around, (hers, his) = server._around, connections(echo)
        ask_without_fetching(ada, lambda: is_held(hers, 100_000))
        assert not around.is_tight("")
        for _ in range(1_000):
            # One by one, so that few are on their way, and he keeps far below his own share.
            handled = len(echo.manager.events)
            bob.say(large_frames.ReadPart(0, 0, 0, 20_000))
            wait_until(lambda handled=handled: len(echo.manager.events) > handled)
            if his._writing and his._unsent > 20_000:
                break
        assert his._unsent > 20_000
        wait_until(lambda: his._reading)
    wait_until(lambda: not (around.unsent_bytes or around._unsent_of))


def test_who_hangs_up_leaves_nothing_unsent_behind(echo, wait_until, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.connection.OUTBOX_BYTES_MAX", 2_000)
    with echo.client() as client:
        client.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 20_000)
        wait_until(lambda: len(connections(echo)) == 1)
        (held,) = connections(echo)
        ask_without_fetching(client, lambda: is_held(held, 2_000))
        (server,) = echo.servers
        wait_until(lambda: server._around.unsent_bytes == held._unsent > 2_000)
    wait_until(lambda: server._around.unsent_bytes == 0)


@pytest.mark.slow
def test_a_talkative_session_leaves_the_others_their_share(echo):
    with echo.client() as loud, echo.client() as other:
        loud.socket.setblocking(False)
        flood = frames.encode_frame(queue_frames.Describe(), 0) * 50_000
        sent = 0
        for _ in range(20):
            if takes_more(loud.socket, within_s=0.0):
                sent += loud.socket.send(memoryview(flood)[sent : sent + 200_000])
            assert isinstance(other.ask(queue_frames.Describe()).head, frames.Done)


def test_small_frames_go_out_at_once_on_tcp():
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = socket.create_connection(server.getsockname())
        with sock:
            tune(sock)
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert not sock.getblocking()


def test_large_answers_pass_through_both_kinds_of_socket(echo_daemon, tmp_path):
    record = bytes(range(256)) * (4 << 12)
    with echo_daemon("d", listen="127.0.0.1:0", open=True, socket=str(tmp_path / "s")) as echo:
        clients = [connected(address) for address in echo.daemon.addresses]
        clients[0].ask(message_frames.Send(0, 0, [], []), 1, record)
        for client in clients:
            with client:
                for number in range(8):
                    client.say(large_frames.ReadPart(0, 0, number, len(record) - number), number)
                for number in range(8):
                    frame = client.hear()
                    assert frame.request_id == number
                    assert frame.body == record[number:]


def test_an_answer_for_one_who_is_gone_lets_go_of_its_file(echo, wait_until):
    with echo.client() as other:
        other.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 100_000)
        for _ in range(5):
            client = RawClient(echo.daemon.connect())
            for number in range(200):
                client.say(large_frames.ReadPart(0, 0, 0, 100_000), number)
            client.socket.close()
        wait_until(lambda: echo.manager.open_sessions == 1)
        (extent,) = echo.manager.records
        assert echo.manager.store._heap._files[extent.file].readers == 0


def test_only_a_few_connections_keep_memory_for_large_frames(echo):
    clients = [echo.client() for _ in range(SPARE_BODIES_MAX + 3)]
    for client in [*clients, clients[0]]:
        client.say(message_frames.Send(0, 1, [], []), 1, b"x" * 100_000)
        client.ask(queue_frames.Describe())
    (server,) = echo.servers
    kept = [
        connection._stream._spare is not None and len(connection._stream._spare) > 65_536
        for connection in server._sessions.values()
    ]
    assert kept == [True, *[False] * 3, *[True] * (SPARE_BODIES_MAX - 1)]
    for client in clients:
        client.socket.close()
