"""Promises about express messages, as a program sees them (R9, R72)."""

from __future__ import annotations

import pytest

import dray


def test_a_message_says_whether_it_is_recoverable(make_queue):
    news, orders = make_queue(transactional=False), make_queue()
    for queue in (news, orders):
        for recoverable in (False, None, True):
            queue.send(b"", recoverable=recoverable)
    assert [each.recoverable for each in news.messages()] == [False, True, True]
    assert [each.recoverable for each in orders.messages()] == [True, True, True]
    assert (news.info().express_count, orders.info().express_count) == (1, 0)
    assert news.info().express_bytes == news.info().byte_count // 3


def test_express_messages_are_sent_looked_at_and_received_like_others(make_queue):
    queue = make_queue(transactional=False)
    id = queue.send(b"x" * 100_000, recoverable=False, label="mine", correlation_id="a")
    queue.send_many([dray.Message(body=b"b", recoverable=each) for each in (True, False)])
    assert queue.peek().body == b"x" * 100_000
    assert queue.peek_by_correlation_id("A").id == id
    assert queue.receive_by_id(id).label == "mine"
    assert [each.body for each in queue.receive_many(10)] == [b"b", b"b"]
    with pytest.raises(dray.ReceiveTimeout):
        queue.receive(timeout=0)


def test_the_manager_tells_its_memory_for_express_messages(manager, make_queue):
    queue = make_queue(transactional=False)
    before = manager.info()
    assert before.express_memory == 64 << 20
    queue.send(bytes(1000), recoverable=False)
    assert manager.info().express_in_memory > before.express_in_memory


def test_after_a_restart_only_what_is_recoverable_is_there(face, tmp_path):
    with face.open(tmp_path / "data", express_memory="1MiB") as manager:
        assert manager.info().express_memory == 1 << 20
        queue = manager.create_queue("news", transactional=False)
        queue.send(b"express", recoverable=False)
        queue.send(b"recoverable")
    with face.open(tmp_path / "data") as manager:
        queue = manager.queue("news")
        assert queue.receive(timeout=0).body == b"recoverable"
        assert queue.info().message_count == 0
