"""Where the status queue of large messages is created: at the queue manager of the receiver."""

from __future__ import annotations

import dray

SECONDS = 60


def names(manager):
    return [each.name for each in manager.queues()]


def test_large_messages_for_another_manager_need_a_status_queue_there_only(tmp_path, address):
    with (
        dray.open(tmp_path / "destination", listen=address, open=True) as destination,
        dray.open(tmp_path / "source") as source,
    ):
        destination.create_queue("heavy")
        dray.LargeMessageQueue(source.queue(f"dray://{address}/heavy")).send(b"x" * 2500)
        large = dray.LargeMessageQueue(destination.queue("heavy"))
        with large.receive(SECONDS) as message:
            assert message.body() == b"x" * 2500
        assert "statusq" in names(destination)
        assert "statusq" not in names(source)
