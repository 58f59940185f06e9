"""A queue manager killed between a commit and its answer, and the command line in doubt."""

from __future__ import annotations

from contextlib import suppress

import pytest

import dray
from dray.client.connections.address import parse_address
from dray.testing.processes import ManagerProcess
from dray.wire.message_frames import Commit, Receive, Send
from tests.integration.commands import dray as command
from tests.lines.losing_line import WAIT_S, LosingLine

pytestmark = pytest.mark.slow
COMMITTED, ABORTED = dray.TransactionStatus.COMMITTED, dray.TransactionStatus.ABORTED


@pytest.fixture
def process(tmp_path):
    with ManagerProcess("manager", tmp_path) as process:
        with process.connect() as manager:
            manager.create_queue("orders")
            manager.create_queue("plain", transactional=False)
        yield process


@pytest.fixture
def line(process):
    with LosingLine(parse_address(process.url).dial).listen() as line:
        yield line


def killed(process):
    """Kill the queue manager and start it again."""

    def kill():
        process.kill()
        process.start()

    return kill


@pytest.mark.parametrize("queue", ["orders", "plain"])
@pytest.mark.parametrize("lost", ["answer", "request"])
def test_a_send_through_a_kill_is_in_doubt_and_its_outcome_is_true(process, line, queue, lost):
    with dray.connect(line.url) as manager:
        target = manager.queue(queue)
        target.send(b"before")
        line.then = killed(process)
        (line.lose_answer if lost == "answer" else line.lose_request)(Send)
        with pytest.raises(dray.InDoubt) as caught:
            target.send(b"once")
        assert line.happened.wait(WAIT_S)
        assert not caught.value.retryable
        wanted = COMMITTED if lost == "answer" else ABORTED
        assert manager.outcome(caught.value.transaction_id) is wanted
        bodies = [each.body for each in target.messages()]
        assert bodies == [b"before", b"once"][: 2 if lost == "answer" else 1]


def test_of_an_express_send_nobody_knows_after_a_kill(process, line):
    """It may have been received before the kill, so it is not called aborted."""
    with dray.connect(line.url) as manager:
        target = manager.queue("plain")
        line.then = killed(process)
        line.lose_answer(Send)
        with pytest.raises(dray.InDoubt) as caught:
            target.send(b"once", recoverable=False)
        assert line.happened.wait(WAIT_S)
        status = manager.outcome(caught.value.transaction_id)
        assert status is dray.TransactionStatus.UNKNOWN


@pytest.mark.parametrize("queue", ["orders", "plain"])
def test_the_send_command_finds_out_what_became_of_a_send_in_doubt(process, line, queue, tmp_path):
    (tmp_path / "file").write_bytes(b"once")
    kind = Commit if queue == "orders" else Send
    line.lose_answer(kind)
    said = command("send", queue, tmp_path / "file", "--json", url=line.url).assert_good()
    assert line.lost == 1
    with process.connect() as manager:
        (message,) = manager.queue(queue).messages()
        assert message.id == said.value["messages"][0]["id"]
    line.lose_request(kind)
    said = command("send", queue, tmp_path / "file", url=line.url)
    assert "nothing was sent" in said.assert_error("transaction-aborted")
    with process.connect() as manager:
        assert manager.queue(queue).info().message_count == 1


def test_a_command_tells_the_outcome_of_a_send_in_doubt(process, line):
    with dray.connect(line.url) as manager:
        line.lose_answer(Send)
        with pytest.raises(dray.InDoubt) as caught:
            manager.queue("plain").send(b"once")
    id = caught.value.transaction_id
    assert "dray transaction outcome" in str(caught.value)
    said = command("transaction", "outcome", id, "--json", url=process.url).assert_good()
    assert said.value == {"transaction_id": id, "status": "committed"}
    said = command("transaction", "outcome", id, url=process.url).assert_good()
    assert said.out == "committed: it happened; do not do it again\n"


def test_prepared_transactions_are_settled_by_command(process):
    with process.connect() as manager:
        for act, count in (("commit", 1), ("abort", 1)):
            transaction = manager.transaction()
            manager.queue("orders").send(b"x", transaction=transaction)
            transaction.prepare()
            said = command("transaction", "prepared", "--json", url=process.url).assert_good()
            assert said.value == [transaction.id]
            command("transaction", act, transaction.id, url=process.url).assert_good()
            assert command("transaction", "prepared", url=process.url).assert_good().out == ""
            assert manager.queue("orders").info().message_count == count


@pytest.mark.parametrize("queue", ["orders", "plain"])
@pytest.mark.parametrize("lost", [Receive, Commit], ids=["claim", "commit"])
def test_a_receive_through_a_kill_loses_nothing_and_takes_nothing_twice(process, line, queue, lost):
    with dray.connect(line.url) as manager:
        source = manager.queue(queue)
        source.send_many([b"1", b"2", b"3"])
        line.then = killed(process)
        line.lose_answer(lost)
        found = []
        while len(found) < 3:
            with suppress(dray.ConnectionLost):
                found.append(source.receive(30).body)
            if line.lost:
                assert line.happened.wait(WAIT_S)
        assert found == [b"1", b"2", b"3"]
        assert source.info().message_count == 0
    assert line.lost == 1


def test_the_receive_command_waits_for_what_it_has_taken(process, line, tmp_path):
    with process.connect() as manager:
        manager.queue("plain").send_many([b"1", b"2"])
    line.then = killed(process)
    line.lose_answer(Commit)
    said = command("receive", "plain", url=line.url).assert_good()
    assert said.out == "1"
    line.lose_answer(Receive)
    said = command("receive", "plain", url=line.url)
    said.assert_error("connection-lost")
    with process.connect() as manager:
        assert [each.body for each in manager.queue("plain").messages()] == [b"2"]


def test_an_offer_in_doubt_is_offered_once_when_the_call_is_repeated(process, line, tmp_path):
    """To a queue that is not transactional: its InDoubt names what the next call asks about."""
    (tmp_path / "file").write_bytes(b"offered")
    with dray.connect(line.url) as manager:
        queue = manager.queue("plain")
        line.lose_answer(Send)
        with pytest.raises(dray.InDoubt) as caught:
            manager.offer_file(tmp_path / "file", "plain")
        assert manager.outcome(caught.value.transaction_id) is COMMITTED
        again = manager.offer_file(tmp_path / "file", "plain")
        assert queue.info().message_count == 1
        again.cancel()
