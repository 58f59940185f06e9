"""One socket for many threads, and every way in which it can end."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import threading
import time

import pytest

from dray.client.blocking.manager import Manager
from dray.client.connections.connection import send_some
from dray.client.connections.thread_connection import ThreadConnection
from dray.client.connections.threads import run
from dray.errors import ConnectionLost, Misuse, ProtocolError
from dray.wire.frames import Done, Failed, Hello, Lease, Welcome, encode_frame
from dray.wire.message_frames import Messages, Outcome, OutcomeIs, Receive, Send
from dray.wire.queue_frames import Describe, ListQueues, ManagerState, OpenQueue, QueueList
from dray.wire.stream import Frame
from tests.unit.client.peer import MANAGER_ID, Peer, keep_silent

DEADLINE_S = 100


@pytest.fixture
def connection(peer):
    connection = ThreadConnection(peer.dial(), "the scripted peer")
    run(connection.greet())
    yield connection
    connection.close()


def in_thread(act):
    """Run `act`; give what it returned or raised once joined."""
    found = []

    def run():
        try:
            found.append(act())
        except Exception as error:  # noqa: BLE001 - handed to the test
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(DEADLINE_S)
        assert found, "the thread did not end"
        return found[0]

    return join


def noting(event):
    """Set the event and answer nothing."""

    def note(visit, frame):
        event.set()

    return note


def test_one_waiting_for_ever_does_not_stop_another_and_hands_on_the_reading(peer, connection):
    held = threading.Event()
    kept = []
    peer.on[Describe] = lambda visit, frame: (kept.append((visit, frame)), held.set())
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))
    for_ever = in_thread(lambda: run(connection.call(Describe(), Done)).head)
    assert held.wait(DEADLINE_S)
    for _ in range(20):
        assert run(connection.ask(ListQueues(), QueueList)).queues == []
    visit, frame = kept[0]
    visit.answer(frame, Done(1))
    assert for_ever() == Done(1)


def test_an_answer_that_another_thread_read_is_not_kept(peer, connection):
    held, kept = threading.Event(), []
    peer.on[Describe] = lambda visit, frame: (kept.append((visit, frame)), held.set())
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))
    for_ever = in_thread(lambda: run(connection.call(Describe(), Done)).head)
    assert held.wait(DEADLINE_S)
    for _ in range(20):
        run(connection.ask(ListQueues(), QueueList))
    gc.collect()
    answers = [
        each
        for each in gc.get_objects()
        if isinstance(each, Frame) and isinstance(each.head, QueueList)
    ]
    visit, frame = kept[0]
    visit.answer(frame, Done(1))
    for_ever()
    assert answers == []


def test_a_call_of_a_signal_handler_is_refused_while_its_thread_waits(peer, manager):
    refused = []

    def call(_number, _frame):
        try:
            manager.queues()
        except Misuse as error:
            refused.append(str(error))

    def interrupt(visit, frame):
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)
        while not refused:
            time.sleep(0.001)
        visit.answer(frame, QueueList([]))

    peer.on[ListQueues] = interrupt
    before = signal.signal(signal.SIGUSR1, call)
    try:
        assert manager.queues() == []
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert "a signal handler" in refused[0]
    assert len(peer.visits) == 1


def test_a_call_that_interrupted_its_own_transaction_is_refused(manager):
    lock = manager.transaction().awaited._lock

    async def twice():
        async with lock, lock:
            pytest.fail("a thread that has the lock would wait for itself")

    with pytest.raises(Misuse, match="a signal handler"):
        run(twice())


def test_a_look_for_what_has_come_that_is_interrupted_keeps_no_later_call_out(peer, manager):
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))
    assert manager.queues() == []

    def interrupt(frame, _event, _argument):
        if frame.f_code.co_name == "_pass_on":
            sys.settrace(None)
            raise KeyboardInterrupt

    sys.settrace(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            manager.queues()
    finally:
        sys.settrace(None)
    assert manager.queues() == []
    assert len(peer.visits) == 2


def test_the_reader_wakes_another_to_read_on_when_its_own_answer_has_come(peer, connection):
    kept, all_there = [], threading.Event()

    def keep(visit, frame):
        kept.append((visit, frame))
        if len(kept) == 4:
            all_there.set()

    peer.on[Outcome] = keep
    waiting = {
        name: in_thread(lambda name=name: run(connection.ask(Outcome(name), OutcomeIs)).status)
        for name in "abcd"
    }
    assert all_there.wait(DEADLINE_S)
    for visit, frame in kept:
        visit.answer(frame, OutcomeIs(frame.head.transaction_id))
        assert waiting[frame.head.transaction_id]() == frame.head.transaction_id


def test_many_answers_in_one_piece_reach_everyone(peer, connection):
    kept = []

    def keep(visit, frame):
        kept.append(frame)
        if len(kept) == 3:
            visit.say(
                b"".join(encode_frame(Done(each.request_id), each.request_id) for each in kept)
            )

    peer.on[Describe] = keep
    pendings = [run(connection.start(Describe())) for _ in range(3)]
    for pending in pendings:
        frame = run(connection.wait(pending))
        assert frame.head == Done(frame.request_id)


def test_requests_for_later_go_out_once_with_the_next_one(peer, connection):
    peer.on[Outcome] = lambda visit, frame: visit.answer(
        frame, OutcomeIs(frame.head.transaction_id)
    )
    later = {name: connection.start_later(Outcome(name)) for name in "abc"}
    assert peer.of(Outcome) == []
    run(connection.open_queue("orders"))
    for name, pending in later.items():
        found = run(connection.answered(pending, Outcome(name), OutcomeIs)).head
        assert found.status == name
    later = connection.start_later(Outcome("d"))
    run(connection.say_left())
    assert run(connection.answered(later, Outcome("d"), OutcomeIs)).head.status == "d"
    assert [head.transaction_id for head in peer.of(Outcome)] == ["a", "b", "c", "d"]


def test_silence_past_the_time_loses_the_connection(peer, connection):
    peer.on[Describe] = keep_silent
    with pytest.raises(ConnectionLost, match="did not answer"):
        run(connection.call(Describe(), ManagerState, wait_s=0.01))
    with pytest.raises(ConnectionLost, match="did not answer"):
        run(connection.call(Describe(), ManagerState))


def test_silence_past_the_time_of_one_who_only_waits_loses_the_connection(peer, connection):
    reading = threading.Event()
    peer.on[Outcome] = noting(reading)
    peer.on[Describe] = keep_silent
    for_ever = in_thread(lambda: run(connection.call(Outcome("x"), OutcomeIs)))
    assert reading.wait(DEADLINE_S)
    with pytest.raises(ConnectionLost, match="did not answer"):
        run(connection.call(Describe(), ManagerState, wait_s=0.01))
    assert isinstance(for_ever(), ConnectionLost)


def test_a_connection_that_ends_ends_every_request(peer, connection):
    both = threading.Barrier(2, timeout=DEADLINE_S)
    seen = []

    def hang_up_at_second(visit, frame):
        seen.append(frame)
        if len(seen) == 2:
            visit.hang_up()

    peer.on[Describe] = hang_up_at_second

    def ask():
        both.wait()
        return run(connection.call(Describe(), ManagerState))

    ends = [in_thread(ask), in_thread(ask)]
    errors = [end() for end in ends]
    assert [type(error) for error in errors] == [ConnectionLost] * 2
    assert errors[0] is not errors[1]


def test_closing_wakes_whoever_waits(peer, connection):
    asked = threading.Event()
    peer.on[Describe] = noting(asked)
    waiting = in_thread(lambda: run(connection.call(Describe(), ManagerState)))
    assert asked.wait(DEADLINE_S)
    connection.close()
    assert isinstance(waiting(), ConnectionLost)


def speak_http(visit, frame):
    visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_bytes_that_are_no_frame_end_the_connection(peer, connection):
    peer.on[Describe] = speak_http
    with pytest.raises(ProtocolError, match="does not speak Dray"):
        run(connection.call(Describe(), ManagerState))
    assert not connection.alive


def test_an_answer_of_another_kind_ends_the_connection(peer, connection):
    peer.on[Describe] = lambda visit, frame: visit.answer(frame, Done())
    with pytest.raises(ProtocolError, match="Done instead of ManagerState"):
        run(connection.call(Describe(), ManagerState))
    assert not connection.alive


def test_the_reason_that_a_peer_gives_before_it_hangs_up_is_told(peer, connection):
    def refuse(visit, frame):
        visit.say(encode_frame(Failed("protocol-error", "never heard of that")))
        visit.hang_up()

    peer.on[Describe] = refuse
    with pytest.raises(ProtocolError, match="never heard of that"):
        run(connection.call(Describe(), ManagerState))


def test_a_peer_that_went_away_is_noticed_by_sending(peer, connection):
    peer.visits[0].close()
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            run(connection.call(Describe(), ManagerState))


def test_an_interrupt_gives_the_connection_up_because_an_answer_could_be_a_message(peer, manager):
    def interrupt(visit, frame):
        os.kill(os.getpid(), signal.SIGINT)

    peer.on[Receive] = interrupt
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))
    with pytest.raises(KeyboardInterrupt):
        manager.queue("orders").receive()
    assert manager.queues() == []
    assert len(peer.visits) == 2


def test_a_frame_that_the_kernel_takes_only_in_part_is_sent_to_its_end():
    ours, theirs = socket.socketpair()
    # With a timeout the socket takes what fits now instead of waiting for the rest.
    ours.settimeout(DEADLINE_S)
    buffers = [b"a" * 10, bytes(3_000_000), b"", b"z" * 1_000_000]
    joined = in_thread(lambda: theirs.recv(4_000_010, socket.MSG_WAITALL))
    for rest in send_some(ours, buffers):
        ours.sendall(rest)
    assert joined() == b"".join(buffers)
    ours.close()
    theirs.close()


def test_numbers_are_leased_again_when_they_are_used_up(peer):
    peer.numbers = 3
    with Manager(peer) as manager:
        transaction = manager.transaction()
        queue = manager.queue("orders")
        ids = [queue.send(b"", transaction=transaction) for _ in range(8)]
        transaction.commit()
    assert ids == [f"{MANAGER_ID}\\{number}" for number in range(2, 10)]
    assert len(peer.of(Lease)) == 2


def test_a_lease_that_is_too_short_for_a_batch_breaks_the_protocol(peer):
    peer.numbers = 3
    with Manager(peer) as manager, pytest.raises(ProtocolError, match="numbers"):
        manager.queue("orders").send_many([b""] * 4)


def test_a_queue_is_resolved_once_per_connection(peer, manager, queue):
    peer.on[Send] = lambda visit, frame: visit.answer(frame, Done(1))
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))
    for _ in range(3):
        queue.send(b"")
    assert len(peer.of(OpenQueue)) == 1
    peer.visits[0].close()
    manager.queues()
    queue.send(b"")
    assert len(peer.of(OpenQueue)) == 2
    assert len(peer.of(Hello)) == 2


def test_a_peer_that_does_not_welcome_is_told_and_its_socket_closed():
    peer = Peer()
    peer.on[Hello] = lambda visit, frame: visit.answer(frame, Done())
    with pytest.raises(ProtocolError, match="Hello"):
        Manager(peer)
    peer.on[Hello] = lambda visit, frame: visit.answer(frame, Welcome("zz", "", "", 1))
    with pytest.raises(ProtocolError, match="zz"):
        Manager(peer)
    peer.close()


def test_messages_that_lie_about_their_length_are_refused(peer, queue):
    for body in (b"more than said", b""):
        peer.on[Receive] = lambda visit, frame, body=body: visit.answer(frame, Messages([]), body)
        with pytest.raises(ProtocolError):
            queue.receive(0)
