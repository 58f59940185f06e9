"""The eleven defects of the original (semantics 4.5): none of them is here."""

from __future__ import annotations

import io
import random
import resource
import threading

import pytest

import dray
from dray.large.split import read_control

BODY = random.Random(3).randbytes(10_500)


@pytest.fixture
def manager(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        manager.create_queue("statusq")
        manager.create_queue("heavy")
        yield manager


@pytest.fixture
def large(manager):
    return dray.LargeMessageQueue(manager.queue("heavy"), fragment_size=1000)


def received(large):
    with large.receive(timeout=10) as message:
        return message.body()


def test_1_the_fragment_size_is_not_overwritten_by_the_last_fragment(manager, large):
    for _ in range(2):
        large.send(BODY)
        assert large.fragment_size == 1000
        with large.receive(timeout=10) as message:
            assert message.fragment_count == 11


def test_2_a_stream_of_many_fragments_that_cannot_seek_is_sent(large):
    class Pipe(io.RawIOBase):
        """Gives what is left of the body, some bytes at a time, and cannot go back."""

        left = memoryview(BODY)

        def readable(self):
            return True

        def readinto(self, buffer):
            count = min(len(buffer), 700, len(self.left))
            buffer[:count], self.left = self.left[:count], self.left[count:]
            return count

    large.send(Pipe())
    assert received(large) == BODY


@pytest.mark.slow
def test_3_a_body_is_never_whole_in_memory(manager, tmp_path):
    size = 192 << 20
    path = tmp_path / "body"
    with path.open("wb") as file:
        file.truncate(size)
    large = dray.LargeMessageQueue(manager.queue("heavy"))
    large.send(bytes(1 << 20))
    received(large)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    large.send(path)
    with large.receive(timeout=10) as message:
        message.save_to(tmp_path / "out")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    # Sender, queue manager and receiver are one process here.
    assert grown < size / 2
    assert (tmp_path / "out").stat().st_size == size


def test_4_a_message_that_was_received_does_not_come_back(large):
    large.send(BODY)
    assert received(large) == BODY
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)


def test_5_a_status_of_another_queue_is_not_destroyed(manager, large):
    other = dray.LargeMessageQueue(manager.create_queue("other"), fragment_size=1000)
    for each in (large, other):
        each.send(BODY)
        each.receive(timeout=10).close()
    assert manager.queue("statusq").info().message_count == 2
    assert received(large) == BODY
    assert manager.queue("statusq").info().message_count == 1
    assert received(other) == BODY


def test_6_a_slow_sender_is_no_hole(manager, large):
    """A receive whose time is over between two parts rejects nothing."""
    go_on, waiting = threading.Event(), threading.Event()

    def slowly():
        yield BODY[:5000]
        waiting.set()
        assert go_on.wait(60)
        yield BODY[5000:]

    sender = threading.Thread(target=lambda: large.send(slowly()))
    sender.start()
    assert waiting.wait(60)
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
    go_on.set()
    sender.join(60)
    assert received(large) == BODY


def test_7_an_ordinary_message_in_the_queue_is_no_fragment(manager, large):
    queue = manager.queue("heavy")
    # Before the first large message nothing says what the queue is for.
    queue.send(b"an answer", correlation_id="some request", app_specific=1)
    large.send(BODY)
    with pytest.raises(dray.LargeMessageMixing):
        queue.send(b"too late")
    assert received(large) == BODY
    with pytest.raises(dray.ReceiveTimeout):
        large.receive(0)
    (left,) = manager.queue("heavy", raw=True).messages()
    assert left.body == b"an answer"


def test_8_what_goes_wrong_is_raised_and_the_header_may_say_nothing_of_the_count(manager, large):
    def failing():
        yield BODY
        raise RuntimeError("the source broke")

    with pytest.raises(RuntimeError, match="the source broke"):
        large.send(failing())
    assert manager.queue("heavy").info().message_count == 0
    large.send(BODY)
    parts = list(manager.queue("heavy", raw=True).messages())
    assert read_control(parts[0].body).size == len(BODY)
    assert read_control(parts[-1].body).fragment_count == 11


def test_9_the_verdict_in_a_status_is_the_one_in_the_documentation(manager, large):
    large.send(BODY)
    large.receive(timeout=10).close()
    (status,) = manager.queue("statusq").messages()
    assert status.app_specific == 0
    assert status.label.startswith("complete heavy;")


def test_10_a_body_that_is_not_the_one_that_was_sent_is_found(manager, large, monkeypatch):
    large.send(BODY)
    with large.peek(timeout=10) as message:
        message.awaited.digest = bytes(32)
        with pytest.raises(dray.LargeMessageCorrupt):
            message.body()


def test_11_one_object_serves_many_threads(large):
    bodies = [random.Random(seed).randbytes(4000 + seed) for seed in range(8)]
    taken, threads = [], []
    for body in bodies:
        threads.append(threading.Thread(target=large.send, args=(body,)))
        threads.append(threading.Thread(target=lambda: taken.append(received(large))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(taken) == sorted(bodies)
