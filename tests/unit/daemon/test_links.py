"""Links to other managers: made, refused, lost, ended."""

from __future__ import annotations

import socket

from dray.daemon.limits import DIAL_TIMEOUT_S, LINK_BUFFER_BYTES
from dray.manager.events import LinkDown, LinkFrame, LinkUp, Peer
from dray.model.queue import QueueOptions
from dray.net import send_buffer
from dray.wire import frames, message_frames, peer_frames, queue_frames
from tests.unit.daemon.raw_client import RawClient


def listening() -> tuple[socket.socket, Peer]:
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(100)
    return server, Peer("127.0.0.1", server.getsockname()[1])


def accepted(server: socket.socket) -> RawClient:
    return RawClient(server.accept()[0])


def dial(client: RawClient, peer: Peer) -> None:
    assert isinstance(
        client.ask(queue_frames.OpenQueue(f"{peer.host}:{peer.port}")).head, frames.Done
    )


def downs(echo) -> list[tuple[Peer, str]]:
    return [(down.peer, down.reason) for down in echo.manager.events if isinstance(down, LinkDown)]


def test_a_link_begins_with_our_hello_and_carries_frames_both_ways(echo, wait_until):
    server, peer = listening()
    record = b"record" * 10_000
    with server, echo.client() as client:
        client.ask(message_frames.Send(0, 0, [], []), 1, record)
        dial(client, peer)
        with accepted(server) as other:
            hello = other.hear_head(frames.Hello)
            assert (hello.role, hello.manager_id, hello.name) == ("manager", "e" * 32, "echo")
            wait_until(lambda: LinkUp(peer) in echo.manager.events)
            other.say(frames.Welcome("f" * 32, "other", "1", 1), 0)
            other.say(peer_frames.StreamState(1, 2, 3), 0)
            wait_until(lambda: echo.manager.count(LinkFrame) == 2)
            first = next(each for each in echo.manager.events if isinstance(each, LinkFrame))
            assert first.frame.head.name == "other"
            client.say(queue_frames.CreateQueue(f"{peer.host}:{peer.port}", QueueOptions()))
            frame = other.hear()
            assert isinstance(frame.head, peer_frames.Data)
            assert bytes(frame.body) == record
        wait_until(lambda: (peer, "the other end hung up") in downs(echo))
        assert echo.manager.count(LinkDown) == 1


def test_a_link_asks_for_a_buffer_as_long_as_the_line_may_be(echo, wait_until, monkeypatch):
    """Else a connection carries 20 MB/s over 100 ms, whatever the window."""
    monkeypatch.setattr(send_buffer, "_way_to", lambda _: socket.SO_SNDBUF)
    server, peer = listening()
    with server, echo.client() as client:
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            wait_until(lambda: LinkUp(peer) in echo.manager.events)
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as asked:
                asked.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, LINK_BUFFER_BYTES)
                wanted = asked.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
            link = echo.servers[-1]._links._up[peer]._sock
            assert link.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == wanted


def test_what_is_said_of_a_stream_comes_behind_its_data_also_if_that_is_long(echo, wait_until):
    """The peer would drop what passes over messages that it has not got yet."""
    server, peer = listening()
    record = bytes(1 << 20)
    with server, echo.client() as client:
        client.ask(message_frames.Send(0, 0, [], []), 1, record)
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            wait_until(lambda: LinkUp(peer) in echo.manager.events)
            client.say(queue_frames.DescribeQueue(f"{peer.host}:{peer.port}"))
            heard = [other.hear() for _ in range(4)]
            assert [type(each.head) for each in heard] == [
                peer_frames.Data,
                peer_frames.AheadDropped,
                peer_frames.Passed,
                peer_frames.EndStream,
            ]
            assert bytes(heard[0].body) == record


def test_a_refused_link_is_reported_once(echo, wait_until):
    server, peer = listening()
    server.close()
    with echo.client() as client:
        dial(client, peer)
        wait_until(lambda: (peer, "Connection refused") in downs(echo))
        assert all(0.5 <= e.jitter <= 1.0 for e in echo.manager.events if isinstance(e, LinkDown))
        client.ask(queue_frames.Describe())
        assert echo.manager.count(LinkDown) == 1


def test_a_name_that_nobody_has_is_reported(echo, wait_until):
    with echo.client() as client:
        dial(client, Peer("no-such-host.invalid", 1))
        wait_until(lambda: echo.manager.count(LinkDown))


def test_a_link_that_was_hung_up_is_not_reported_and_can_be_dialled_again(echo, wait_until):
    server, peer = listening()
    with server, echo.client() as client:
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            client.ask(queue_frames.PauseQueue(f"{peer.host}:{peer.port}", True))
            assert other.is_hung_up()
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
        wait_until(lambda: echo.manager.count(LinkDown) == 1)
        assert echo.manager.count(LinkUp) == 2


def test_dialling_twice_makes_one_link(echo):
    server, peer = listening()
    with server, echo.client() as client:
        dial(client, peer)
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            server.setblocking(False)
            client.ask(queue_frames.Describe())
            try:
                server.accept()
            except BlockingIOError:
                return
            raise AssertionError("a second link was made")


def test_garbage_on_a_link_ends_it(echo, wait_until):
    server, peer = listening()
    with server, echo.client() as client:
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            other.socket.sendall(b"x" * 100)
            assert other.hear_head(frames.Failed).error == "protocol-error"
            assert other.is_hung_up()
        wait_until(lambda: echo.manager.count(LinkDown) == 1)


def test_a_frame_without_a_link_is_dropped_with_its_pins(echo):
    with echo.client() as client:
        client.ask(message_frames.Send(0, 0, [], []), 1, b"x" * 100_000)
        client.say(queue_frames.CreateQueue("127.0.0.1:1", QueueOptions()), 0)
        client.ask(queue_frames.Describe())
        (extent,) = echo.manager.records
        assert echo.manager.store._heap._files[extent.file].readers == 0


def test_an_attempt_that_is_not_answered_ends_in_time(echo, wait_until, monkeypatch):
    monkeypatch.setattr("dray.daemon.sockets.links.DIAL_TIMEOUT_S", 0.05)
    assert DIAL_TIMEOUT_S == 5
    # A listening socket whose backlog is full does not answer further callers.
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(0)
    peer = Peer("127.0.0.1", server.getsockname()[1])
    fillers = []
    with server, echo.client() as client:
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(peer[:2])
            fillers.append(filler)
        dial(client, peer)
        wait_until(lambda: echo.manager.count(LinkDown) or echo.manager.count(LinkUp))
        down = next(each for each in echo.manager.events if isinstance(each, LinkDown))
        assert down.reason == "no answer within 0.05 seconds"
        for filler in fillers:
            filler.close()


def test_a_frame_that_cannot_be_handled_costs_the_link(echo, wait_until):
    server, peer = listening()
    with server, echo.client() as client:
        dial(client, peer)
        with accepted(server) as other:
            other.hear_head(frames.Hello)
            echo.manager.fails_at = {LinkFrame}
            other.say(peer_frames.StreamState(1, 2, 3), 0)
            assert other.is_hung_up()
        wait_until(lambda: echo.manager.count(LinkDown) == 1)
        assert isinstance(client.ask(queue_frames.Describe()).head, frames.Done)
