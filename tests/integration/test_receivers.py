"""A receiver that goes on through restarts of its queue manager."""

from __future__ import annotations

import logging
import threading

import pytest

import dray
from dray.client.awaited import receiver as receivers
from dray.testing.processes import ManagerProcess
from tests.integration.commands import until

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(receivers, "BACKOFF_S", (0.02, 0.1))


@pytest.mark.parametrize("kind", ["plain", "large"])
def test_a_receiver_with_reconnect_goes_on_through_kills_of_its_queue_manager(
    tmp_path, caplog, kind
):
    caplog.set_level(logging.WARNING, "dray")
    seen, stop = [], threading.Event()
    with ManagerProcess("one", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("statusq", exist_ok=True)
            manager.create_queue("orders")

        def send(label):
            with process.connect() as manager:
                queue = manager.queue("orders")
                if kind == "plain":
                    with manager.transaction() as transaction:
                        queue.send(b"body", label=label, transaction=transaction)
                else:
                    dray.LargeMessageQueue(queue).send(b"body", label=label)

        with dray.connect(process.url) as manager:
            queue = manager.queue("orders")
            receiver = dray.Receiver(
                queue if kind == "plain" else dray.LargeMessageQueue(queue),
                retry_delay=0.01,
                workers=2,
            )

            def handle(message, transaction):
                """A kill before its commit brings a message back, so the report is what counts."""

            def report(handled):
                seen.append(handled.message.label)

            thread = threading.Thread(
                target=receiver.run, args=(handle, stop), kwargs={"report": report}
            )
            thread.start()
            try:
                for number in range(2):
                    send(str(number))
                    until(lambda number=number: len(seen) == number + 1)
                    process.kill()
                    until(lambda number=number: told(caplog, "has stopped") == number + 1)
                    process.start()
                    until(lambda number=number: told(caplog, "goes on", "stopped") == number + 1)
            finally:
                stop.set()
                thread.join()
    assert seen == ["0", "1"]
    assert len(caplog.records) == 4, caplog.text


def told(caplog, words, but=None):
    messages = [record.getMessage() for record in caplog.records]
    return sum(words in each and not (but and but in each) for each in messages)


def test_a_commit_in_doubt_is_settled_and_no_message_is_handled_twice(tmp_path, monkeypatch):
    """The answer to the commit is lost each time; the queue manager says how it ended."""
    seen, stop = [], threading.Event()
    conclude = dray.aio.Transaction._conclude
    lost = []

    async def lose(self, *arguments, **named):
        await conclude(self, *arguments, **named)
        if len(lost) < 3 and threading.current_thread() is thread:
            lost.append(self.id)
            self._status = dray.TransactionStatus.IN_DOUBT
            raise dray.InDoubt("the answer was lost", transaction_id=self.id)

    monkeypatch.setattr("dray.client.awaited.transaction.Transaction._conclude", lose)
    with dray.open(tmp_path / "data") as manager:
        queue = manager.create_queue("orders")

        def handle(message, transaction):
            seen.append(message.body)
            if len(seen) == 5:
                stop.set()

        receiver = dray.Receiver(queue)
        thread = threading.Thread(target=receiver.run, args=(handle, stop))
        for number in range(5):
            queue.send(b"%d" % number)
        thread.start()
        thread.join()
        assert queue.info().message_count == 0
    assert seen == [b"0", b"1", b"2", b"3", b"4"]
    assert len(lost) == 3
