"""The turn: nothing is said before the sync of everything it rests on."""

from __future__ import annotations

import socket
from contextlib import suppress

import pytest

from dray.daemon.limits import QUICK_SYNC_S, SLOW_SYNCS
from dray.errors import ProtocolError, StorePoisoned
from dray.machine import Tick
from dray.manager.events import (
    Request,
    SessionClosed,
)
from dray.manager.notices import Notice
from dray.store.disk import LOCK_NAME
from dray.store.store import Store
from dray.wire import frames, large_frames, message_frames, queue_frames

RECORD = bytes(range(256)) * 4096


def test_an_answer_is_released_only_after_its_sync(echo, wait_until):
    with echo.client() as client:
        client.ask(message_frames.Send(0, 0, [], []), 1, RECORD)
        wait_until(lambda: echo.manager.store.counters.syncs == 1)
        echo.gate.close()
        client.say(message_frames.Commit(1, 0), 2)
        assert echo.gate.waiting.wait(100)
        # The loop is alive and serves what needs no sync, yet the commit stays unanswered.
        at_once = client.ask(large_frames.ReadPart(0, 0, 0, 100), 3)
        assert (at_once.request_id, bytes(at_once.body)) == (3, RECORD[:100])
        echo.gate.open.set()
        assert client.hear().request_id == 2


def test_a_slow_disk_syncs_the_log_of_a_commit_once(echo):
    """Both workers synced it, and such a disk does one sync behind the other."""
    echo.gate.sync_s = 1.5 * QUICK_SYNC_S
    with echo.client() as client:
        for number in range(1, SLOW_SYNCS + 2):
            client.ask(message_frames.Commit(1, 0), number)
        before = echo.gate.passed
        client.ask(message_frames.Commit(1, 0), SLOW_SYNCS + 2)
        assert echo.gate.passed == before + 1


def test_the_store_is_told_whether_one_answer_is_all_that_waits(echo, monkeypatch):
    told, begin_sync = [], Store.begin_sync

    def noted(store, *, lone=True):
        told.append(lone)
        return begin_sync(store, lone=lone)

    monkeypatch.setattr(Store, "begin_sync", noted)
    with echo.client() as client:
        client.ask(message_frames.Commit(1, 0), 1)
        assert told[-1]
        for number in range(2, 200):
            client.say(message_frames.Commit(1, 0), number)
        for _ in range(2, 200):
            client.hear()
    assert not all(told)


def test_an_answer_without_facts_waits_for_the_facts_before_it(echo, wait_until):
    with echo.client() as client, echo.client() as other:
        client.ask(message_frames.Send(0, 0, [], []), 1, RECORD)
        wait_until(lambda: echo.manager.store.counters.syncs == 1)
        echo.gate.close()
        client.say(message_frames.Commit(1, 0), 2)
        assert echo.gate.waiting.wait(100)
        other.say(queue_frames.Describe(), 3)
        assert other.ask(large_frames.ReadPart(0, 0, 0, 1), 4).request_id == 4
        echo.gate.open.set()
        assert client.hear().request_id == 2
        assert other.hear().request_id == 3


def test_answers_come_in_the_order_in_which_they_were_decided(echo):
    with echo.client() as client:
        heads = [message_frames.Commit(1, 0), queue_frames.Describe()] * 50
        for number, head in enumerate(heads, 1):
            client.say(head, number)
        assert [client.hear().request_id for _ in heads] == list(range(1, 101))


def test_what_arrives_during_a_sync_shares_the_next_one(echo):
    clients = [echo.client() for _ in range(8)]
    clients[0].ask(message_frames.Send(0, 0, [], []), 1, RECORD)
    before = echo.manager.store.counters.syncs
    echo.gate.close()
    clients[0].say(message_frames.Commit(1, 0), 2)
    assert echo.gate.waiting.wait(100)
    for client in clients:
        for number in range(10, 20):
            client.say(message_frames.Commit(1, 0), number)
        client.say(large_frames.ReadPart(0, 0, 0, 1), 5)
    for client in clients:
        assert client.hear().request_id == 5
    echo.gate.open.set()
    assert clients[0].hear().request_id == 2
    for client in clients:
        assert [client.hear().request_id for _ in range(10)] == list(range(10, 20))
        client.socket.close()
    assert echo.manager.store.counters.syncs - before == 2


@pytest.fixture
def trusting(monkeypatch):
    """Two syncs, however long they take, and the loop waits for the disk itself."""
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNC_S", 3600.0)
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNCS", 2)


@pytest.mark.usefixtures("trusting")
def test_the_loop_itself_syncs_for_a_lone_answer_where_the_disk_is_quick(echo):
    with echo.client() as client:
        for number in range(1, 3):
            client.ask(message_frames.Commit(1, 0), number)
        by_workers, echo.gate.threads = echo.gate.threads, []
        assert client.ask(message_frames.Commit(1, 0), 3).request_id == 3
        assert not any(name.startswith("dray-sync") for name in echo.gate.threads)
        assert any(name.startswith("dray-sync") for name in by_workers)


@pytest.mark.usefixtures("trusting")
def test_a_sync_of_the_loop_that_fails_fails_the_answer_and_ends_the_daemon(echo):
    with echo.client() as client:
        for number in range(1, 3):
            client.ask(message_frames.Commit(1, 0), number)
        echo.gate.threads, echo.gate.broken = [], True
        failed = client.ask(message_frames.Commit(1, 0), 3).head
        assert isinstance(failed, frames.Failed)
        assert failed.error == StorePoisoned.code
        assert client.is_hung_up()
    with pytest.raises(StorePoisoned, match="the test broke it"):
        echo.daemon.stop()


def test_where_the_disk_is_slow_the_loop_never_waits_for_it(echo, monkeypatch):
    monkeypatch.setattr("dray.daemon.pacing.pace.QUICK_SYNC_S", -1.0)
    with echo.client() as client:
        echo.gate.threads = []
        for number in range(1, 50):
            client.ask(message_frames.Commit(1, 0), number)
        assert all(name.startswith("dray-sync") for name in echo.gate.threads)


def test_half_of_many_sessions_are_waited_for_and_share_one_sync(echo_daemon, monkeypatch):
    for name, value in (("GATHER_TURNS", 8), ("STALE_TURN_S", 3600.0), ("GATHER_S_MAX", 3600.0)):
        monkeypatch.setattr(f"dray.daemon.pacing.pace.{name}", value)
    with echo_daemon("many") as echo:
        clients = [echo.client() for _ in range(8)]
        clients[0].ask(message_frames.Send(0, 0, [], []), 1, RECORD)
        for number, client in enumerate(clients):
            client.ask(message_frames.Commit(1, 0), number)
        before = echo.manager.store.counters.syncs
        for number, client in enumerate(clients[:3]):
            client.say(message_frames.Commit(1, 0), number)
            # It is through with what came before, and has begun no sync.
            assert client.ask(large_frames.ReadPart(0, 0, 0, 1), 50).request_id == 50
        assert echo.manager.store.counters.syncs == before
        clients[3].say(message_frames.Commit(1, 0), 3)
        for number, client in enumerate(clients[:4]):
            assert client.hear().request_id == number
        assert echo.manager.store.counters.syncs == before + 1
        for client in clients:
            client.socket.close()


def test_who_waits_for_others_in_vain_is_served_all_the_same(echo_daemon, monkeypatch):
    monkeypatch.setattr("dray.daemon.pacing.pace.GATHER_TURNS", 8)
    monkeypatch.setattr("dray.daemon.pacing.pace.STALE_TURN_S", 3600.0)
    with echo_daemon("many") as echo:
        clients = [echo.client() for _ in range(8)]
        for number, client in enumerate(clients):
            client.ask(message_frames.Commit(1, 0), number)
        assert clients[0].ask(message_frames.Commit(1, 0), 9).request_id == 9
        for client in clients:
            client.socket.close()


def test_a_failed_sync_fails_every_waiting_answer_and_ends_the_daemon(echo):
    with echo.client() as client, echo.client() as other:
        client.ask(message_frames.Send(0, 0, [], []), 1, RECORD)
        echo.gate.close()
        echo.gate.broken = True
        client.say(message_frames.Commit(1, 0), 2)
        assert echo.gate.waiting.wait(100)
        other.say(message_frames.Commit(1, 0), 3)
        assert other.ask(large_frames.ReadPart(0, 0, 0, 1), 4).request_id == 4
        echo.gate.open.set()
        for each, number in ((client, 2), (other, 3)):
            frame = each.hear()
            assert frame.request_id == number
            assert isinstance(frame.head, frames.Failed)
            assert frame.head.error == StorePoisoned.code
            assert each.is_hung_up()
    with pytest.raises(StorePoisoned, match="the test broke it"):
        echo.daemon.stop()


def test_an_unforeseen_failure_is_answered_and_ends_that_session_only(echo, caplog):
    with echo.client() as client, echo.client() as other:
        client.say(frames.Lease(), 7)
        frame = client.hear()
        assert frame.request_id == 7
        assert isinstance(frame.head, frames.Failed)
        assert frame.head.error == "error"
        assert client.is_hung_up()
        assert isinstance(other.ask(message_frames.Commit(1, 0)).head, frames.Done)
    assert "ZeroDivisionError" in caplog.text


def test_a_known_error_that_the_manager_let_pass_is_answered(echo):
    with echo.client() as client:
        failed = client.ask(message_frames.Outcome("1"), 9).head
        assert isinstance(failed, frames.Failed)
        assert failed.error == "store-full"
        assert isinstance(client.ask(message_frames.Commit(1, 0)).head, frames.Done)


def test_bytes_of_an_answer_survive_until_they_have_gone_out(echo):
    """The record is gone and its heap file wanted by others, while nobody reads the answer."""
    records = [bytes([number]) * (4 << 20) for number in range(12)]
    with echo.client() as slow, echo.client() as busy:
        assert slow.ask(message_frames.Send(0, 0, [], []), 1, records[0]).head == frames.Done(0)
        for record in records[1:6]:
            busy.ask(message_frames.Send(0, 0, [], []), 1, record)
        slow.say(message_frames.Receive(0, 0, None), 2)
        for number in range(3):
            slow.say(large_frames.ReadPart(0, 1, 0, 4 << 20), 3 + number)
        for record in records[6:]:
            busy.ask(message_frames.Send(0, 0, [], []), 1, record)
        bodies = {}
        for _ in range(4):
            frame = slow.hear()
            bodies[frame.request_id] = bytes(frame.body)
        assert bodies[2] == records[0]
        assert bodies[3] == bodies[5] == records[1]
        files = {extent.file for extent in echo.manager.records[6:]}
        assert echo.manager.records[0].file not in files


@pytest.mark.slow
def test_a_checkpoint_frees_the_log_while_commits_go_on(echo_daemon):
    with echo_daemon("small", log_bytes="64 KiB") as echo, echo.client() as client:
        for _ in range(60):
            for number in range(1, 101):
                client.say(message_frames.Commit(1, 0), number)
            assert [client.hear().request_id for _ in range(100)] == list(range(1, 101))
            client.ask(message_frames.Commit(1, 0))
        counters = echo.manager.store.counters
        assert counters.log_bytes > 64 << 10
        assert counters.checkpoints >= 1


def test_full_heap_files_are_synced_before_the_commit(echo, wait_until):
    with echo.client() as client:
        client.ask(message_frames.Commit(1, 0))
        syncs, echo.gate.passed = echo.manager.store.counters.syncs, 0
        for _ in range(8):
            client.say(message_frames.Send(0, 1, [], []), 0, b"x" * (4 << 20))
        wait_until(lambda: echo.gate.passed)
        assert echo.manager.store.counters.syncs == syncs


def test_the_deadline_of_the_manager_is_kept(echo, wait_until):
    with echo.client() as client:
        ticks = len(echo.manager.events)
        echo.manager.wake_at = 1.0
        client.ask(queue_frames.Describe())
        wait_until(lambda: len(echo.manager.events) > ticks + 1)
        echo.manager.wake_at = None


def test_without_room_for_a_checkpoint_everything_waits_and_goes_on_when_there_is(
    echo_daemon, wait_until, caplog, monkeypatch
):
    monkeypatch.setattr("dray.daemon.pacing.checkpoints.CHECKPOINT_RETRY_S", 0.01)
    with echo_daemon("small", log_bytes="16 KiB") as echo, echo.client() as client:
        client.ask(message_frames.Commit(1, 0))
        echo.gate.no_room_for = "MQTrans"
        # In one piece: single small ones would fill the socket, which nobody reads from meanwhile.
        flood = [frames.encode_frame(message_frames.Commit(1, 0), n) for n in range(1, 2001)]
        client.socket.sendall(b"".join(flood))
        wait_until(lambda: "no room for a checkpoint" in caplog.text)
        echo.gate.no_room_for = ""
        assert [client.hear().request_id for _ in range(2000)] == list(range(1, 2001))
        for _ in range(60):
            client.ask(message_frames.Commit(1, 0))
        assert echo.manager.store.counters.checkpoints


@pytest.fixture
def full_log(echo_daemon, wait_until, caplog, monkeypatch):
    """A daemon whose log is full: no checkpoint finds room until the gate says otherwise."""
    monkeypatch.setattr("dray.daemon.pacing.checkpoints.CHECKPOINT_RETRY_S", 0.01)
    with echo_daemon("small", log_bytes="16 KiB") as echo:
        with echo.client() as client:
            client.ask(message_frames.Commit(1, 0))
            echo.gate.no_room_for = "MQTrans"
            # The last of these are answered when the test makes room.
            client.socket.sendall(frames.encode_frame(message_frames.Commit(1, 0), 1) * 1000)
            wait_until(lambda: "no room for a checkpoint" in caplog.text)
        yield echo


def test_what_was_read_before_the_log_was_full_is_decided_when_it_has_room_again(
    full_log, wait_until
):
    """Of one read, more than a group of the log could ever hold."""
    with full_log.client() as client, full_log.client() as other:
        flood = [frames.encode_frame(message_frames.Commit(1, 0), n) for n in range(1, 3001)]
        client.socket.sendall(b"".join(flood))
        (server,) = full_log.servers
        wait_until(lambda: server.overfull)
        # It is alive, and has decided no more than it has room for.
        assert full_log.manager.store.waiting_bytes < full_log.manager.store.group_bytes_max
        other.socket.close()
        full_log.gate.no_room_for = ""
        assert [client.hear().request_id for _ in range(3000)] == list(range(1, 3001))
        # Of the one that filled the log, and of the other.
        wait_until(lambda: full_log.manager.count(SessionClosed) == 2)


def test_a_body_that_had_to_wait_for_the_log_is_the_one_that_was_sent(full_log, wait_until):
    with full_log.client() as client:
        (server,) = full_log.servers
        commits = [frames.encode_frame(message_frames.Commit(1, 0), 0) for _ in range(1500)]
        sends = [
            frames.encode_frame(message_frames.Send(0, 0, [], []), n, 100) + bytes([n]) * 100
            for n in range(1, 11)
        ]
        client.socket.sendall(b"".join([*commits, *sends]))
        wait_until(lambda: server.overfull)
        full_log.gate.no_room_for = ""
        for _ in commits:
            assert client.hear().request_id == 0
        places = [client.hear_head(frames.Done).count for _ in sends]
        for n, place in enumerate(places, 1):
            assert (
                bytes(client.ask(large_frames.ReadPart(0, place, 0, 100), n).body)
                == bytes([n]) * 100
            )


def test_a_daemon_that_ends_tells_those_whose_requests_still_wait_for_the_log(full_log, wait_until):
    with full_log.client() as client:
        (server,) = full_log.servers
        flood = [frames.encode_frame(message_frames.Commit(1, 0), n) for n in range(1, 2001)]
        client.socket.sendall(b"".join(flood))
        wait_until(lambda: server.turns._postponed.line)
        undecided = len(server.turns._postponed.line)
        full_log.gate.broken = True
        answers = []
        with suppress(EOFError):
            while True:
                answers.append(client.hear())
        assert sorted(each.request_id for each in answers) == list(range(1, len(answers) + 1))
        refused = [each.head for each in answers if isinstance(each.head, frames.Failed)]
        assert len(refused) >= undecided > 0
        assert {each.error for each in refused} == {StorePoisoned.code}
    with pytest.raises(StorePoisoned):
        full_log.daemon.stop()


def test_who_breaks_the_protocol_is_answered_behind_what_waits_for_the_log(
    full_log, wait_until, tmp_path
):
    with full_log.client() as client:
        (server,) = full_log.servers
        before = full_log.manager.count(Request)
        data = b"".join(frames.encode_frame(message_frames.Commit(1, 0), n) for n in range(1, 2001))
        # That no frame speaks of two files is noticed when the frames have been passed on.
        with (tmp_path / "unclaimed").open("wb") as file:
            for piece in (data[:5], data[5:]):
                socket.send_fds(client.socket, [piece], [file.fileno()])
        wait_until(lambda: server.turns._postponed.line)
        full_log.gate.no_room_for = ""
        answers = []
        while not answers or isinstance(answers[-1].head, frames.Done):
            answers.append(client.hear())
        assert answers.pop().head.error == ProtocolError.code
        assert [each.request_id for each in answers] == list(range(1, len(answers) + 1))
        assert len(answers) == full_log.manager.count(Request) - before
        assert client.is_hung_up()


def test_a_note_of_a_sync_that_fails_fails_the_answer_and_ends_the_daemon(echo):
    with echo.client() as client:
        client.ask(message_frames.Commit(1, 0))
        echo.gate.broken_writes = LOCK_NAME
        failed = client.ask(message_frames.Commit(1, 0), 2).head
        assert isinstance(failed, frames.Failed)
        assert failed.error == StorePoisoned.code
        assert client.is_hung_up()
    with pytest.raises(StorePoisoned, match="the test broke it"):
        echo.daemon.stop()


def test_a_failed_checkpoint_ends_the_daemon(echo_daemon):
    with echo_daemon("small", log_bytes="16 KiB") as echo, echo.client() as client:
        echo.gate.broken = True
        client.say(message_frames.Commit(1, 0))
        assert client.hear_head(frames.Failed).error == StorePoisoned.code
        with pytest.raises(StorePoisoned):
            echo.daemon.stop()


def test_a_failed_early_flush_ends_the_daemon(echo, wait_until):
    with echo.client() as client:
        client.ask(message_frames.Commit(1, 0))
        wait_until(lambda: echo.manager.store.counters.syncs == 1)
        echo.gate.broken = True
        with suppress(ConnectionError):
            for _ in range(8):
                client.say(message_frames.Send(0, 1, [], []), 0, b"x" * (4 << 20))
        assert client.is_hung_up()
    with pytest.raises(StorePoisoned):
        echo.daemon.stop()


def test_a_write_that_poisons_the_store_ends_the_daemon_and_who_asked_for_it_is_told(echo):
    with echo.client() as client:
        client.say(queue_frames.DeleteQueue("q"))
        assert client.hear_head(frames.Failed).error == StorePoisoned.code
        assert client.is_hung_up()
    with pytest.raises(StorePoisoned, match="the disk is gone"):
        echo.daemon.stop()


def test_while_too_much_waits_for_the_disk_nobody_is_read_from(echo, wait_until, monkeypatch):
    monkeypatch.setattr("dray.daemon.turns.GATHERED_EFFECTS_MAX", 10)
    with echo.client() as client, echo.client() as other:
        client.ask(message_frames.Commit(1, 0))
        wait_until(lambda: echo.manager.store.counters.syncs == 1)
        echo.gate.close()
        client.say(message_frames.Commit(1, 0), 0)
        assert echo.gate.waiting.wait(100)
        for number in range(1, 20):
            client.say(message_frames.Commit(1, 0), number)
        (server,) = echo.servers
        wait_until(lambda: server.overfull)
        wait_until(lambda: not any(each._reading for each in server._numbers))
        handled = len(echo.manager.events)
        other.say(queue_frames.Describe(), 5)
        assert len(echo.manager.events) == handled
        echo.gate.open.set()
        assert other.hear().request_id == 5
        assert [client.hear().request_id for _ in range(20)] == list(range(20))


def test_a_failing_tick_is_tried_again_later(echo, wait_until, monkeypatch):
    monkeypatch.setattr("dray.daemon.pacing.alarm.TICK_S_AFTER_FAILURE", 0.05)
    with echo.client() as client:
        echo.manager.fails_at = {Tick}
        echo.manager.wake_at = 1.0
        client.ask(queue_frames.Describe())
        before = echo.manager.count(Tick)
        wait_until(lambda: echo.manager.count(Tick) >= before + 2)
        echo.manager.wake_at = None
        assert isinstance(client.ask(queue_frames.Describe()).head, frames.Done)


def test_facts_that_would_outgrow_a_group_are_written_in_several(echo_daemon, wait_until):
    """A long sync, and meanwhile more facts than one group of this small log can hold."""
    with echo_daemon("small", log_bytes="64 KiB") as echo:
        clients = [echo.client() for _ in range(8)]
        clients[0].ask(message_frames.Commit(1, 0))
        echo.gate.close()
        clients[0].say(message_frames.Commit(1, 0))
        assert echo.gate.waiting.wait(100)
        flood = b"".join(
            frames.encode_frame(message_frames.Commit(1, 0), n) for n in range(1, 1001)
        )
        for client in clients:
            client.socket.sendall(flood)
        echo.gate.open.set()
        assert clients[0].hear().request_id == 1
        for client in clients:
            assert [client.hear().request_id for _ in range(1000)] == list(range(1, 1001))
            client.socket.close()
        assert echo.manager.store.counters.groups > 3


def test_what_the_manager_warns_of_is_logged_once_and_the_rest_when_the_daemon_stops(
    echo_daemon, caplog
):
    with echo_daemon("warning") as echo, echo.client() as client:
        for number in range(5):
            echo.manager.told.append(Notice("full", "orders", "it is full; receive"))
            client.ask(message_frames.Commit(1, 0), number + 1)
        lines = [each.getMessage() for each in caplog.records if "orders" in each.getMessage()]
        assert lines == ["orders: it is full; receive"]
    lines = [each.getMessage() for each in caplog.records if "orders" in each.getMessage()]
    assert len(lines) == 2
    assert lines[1].startswith("orders: it is full; receive (4 times in the last ")
