"""One socket for many tasks, and every way in which it can end."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from dray.client.awaited.manager import Manager
from dray.client.calls.messages import record_of
from dray.client.connections.link import Link
from dray.client.connections.loop_connection import LoopConnection
from dray.client.connections.loops import LoopRuntime
from dray.errors import ConnectionLost, ProtocolError
from dray.forks import this_process
from dray.model.classes import TransactionStatus
from dray.model.message import Message
from dray.wire.frames import Done, Failed, encode_frame
from dray.wire.message_frames import (
    Abort,
    Commit,
    Envelope,
    Messages,
    Outcome,
    OutcomeIs,
    Receive,
    Send,
)
from dray.wire.queue_frames import Describe, ListQueues, ManagerState, QueueList
from tests.unit.client.peer import MANAGER_ID, hang_up, keep_silent

DEADLINE_S = 100


@pytest.fixture
def with_connection(peer):
    """Runs a coroutine function with a connection to the scripted peer."""

    def run(act):
        async def acted():
            connection = LoopConnection(peer.dial(), "the scripted peer")
            try:
                async with asyncio.timeout(DEADLINE_S):
                    await connection.greet()
                    return await act(connection)
            finally:
                connection.close()

        return asyncio.run(acted())

    return run


@pytest.fixture
def with_manager(peer):
    """Runs a coroutine function with a manager over links to the scripted peer."""

    def run(act):
        async def acted():
            async with (
                asyncio.timeout(DEADLINE_S),
                await Manager.connected(Link(peer, LoopRuntime())) as manager,
            ):
                return await act(manager)

        return asyncio.run(acted())

    return run


async def until(event):
    """Wait for something that a thread of the peer notes."""
    assert await asyncio.to_thread(event.wait, DEADLINE_S)


def noting(event):
    def note(visit, frame):
        event.set()

    return note


def test_one_waiting_for_ever_does_not_stop_another(peer, with_connection):
    held, kept = threading.Event(), []
    peer.on[Describe] = lambda visit, frame: (kept.append((visit, frame)), held.set())
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))

    async def act(connection):
        for_ever = asyncio.create_task(connection.call(Describe(), Done))
        await until(held)
        for _ in range(20):
            assert (await connection.ask(ListQueues(), QueueList)).queues == []
        visit, frame = kept[0]
        visit.answer(frame, Done(1))
        return (await for_ever).head

    assert with_connection(act) == Done(1)


def test_answers_in_any_order_reach_those_who_wait_for_them(peer, with_connection):
    kept = []

    def keep(visit, frame):
        kept.append(frame)
        if len(kept) == 4:
            answers = [
                encode_frame(OutcomeIs(each.head.transaction_id), each.request_id)
                for each in reversed(kept)
            ]
            visit.say(b"".join(answers))

    peer.on[Outcome] = keep

    async def act(connection):
        found = await asyncio.gather(*(connection.ask(Outcome(name), OutcomeIs) for name in "abcd"))
        return [each.status for each in found]

    assert with_connection(act) == list("abcd")


def test_a_frame_longer_than_the_kernel_takes_is_sent_to_its_end_and_in_its_place(
    peer, with_connection
):
    peer.on[Send] = lambda visit, frame: visit.answer(frame, Done(len(frame.body)))

    async def act(connection):
        bodies = [bytes([number]) * (1 << 21) for number in range(6)]
        answers = await asyncio.gather(
            *(connection.call(Send(1, 0, [], []), Done, body=[body, b"x"]) for body in bodies)
        )
        return [frame.head.count for frame in answers]

    assert with_connection(act) == [(1 << 21) + 1] * 6


class Counting(socket.socket):
    """A socket that counts the calls that send."""

    calls = 0

    def send(self, *arguments):
        self.calls += 1
        return super().send(*arguments)

    def sendmsg(self, *arguments):
        self.calls += 1
        return super().sendmsg(*arguments)


@pytest.fixture
def with_counted(peer):
    """Runs a coroutine function with a connection that counts its calls to the kernel."""

    def run(act):
        async def acted():
            sock = Counting(fileno=peer.dial().detach())
            connection = LoopConnection(sock, "the scripted peer")
            try:
                async with asyncio.timeout(DEADLINE_S):
                    await connection.greet()
                    return await act(connection, sock)
            finally:
                connection.close()

        return asyncio.run(acted())

    return run


def test_requests_of_many_tasks_go_in_one_call_a_round(peer, with_counted):
    peer.on[Outcome] = lambda visit, frame: visit.answer(frame, OutcomeIs("committed"))
    tasks = 64

    async def act(connection, sock):
        async def asks():
            return await connection.ask(Outcome("a"), OutcomeIs)

        await asyncio.gather(*(asks() for _ in range(tasks)))
        # Answers may come a few at a time, and then so do the next requests; here none is open.
        before = sock.calls
        await asyncio.gather(*(asks() for _ in range(tasks)))
        return sock.calls - before

    assert with_counted(act) == 1


def test_a_lone_request_does_not_wait_for_the_end_of_its_round(peer, with_counted):
    peer.on[Outcome] = lambda visit, frame: visit.answer(frame, OutcomeIs("committed"))

    async def act(connection, sock):
        for _ in range(3):
            before = sock.calls
            pending = await connection.start(Outcome("a"))
            assert sock.calls == before + 1
            await connection.wait(pending)

    with_counted(act)


@pytest.mark.parametrize(
    "sizes",
    [[1 << 22, 10, 1 << 20, *[20_000] * 40, 30], range(1_000, 1_400)],
    ids=["behind a half-sent one", "that the kernel does not take"],
)
def test_small_frames_that_wait_for_the_kernel_keep_their_place(peer, with_connection, sizes):
    reading, go_on = threading.Event(), threading.Event()

    def stop_reading(visit, frame):
        reading.set()
        go_on.wait(DEADLINE_S)

    peer.on[Describe] = stop_reading
    peer.on[Send] = lambda visit, frame: visit.answer(frame, Done(len(frame.body)))

    async def act(connection):
        await connection.start(Describe())
        await until(reading)
        calls = [
            asyncio.create_task(connection.call(Send(1, 0, [], []), Done, body=[bytes(size)]))
            for size in sizes
        ]
        for _ in range(20):
            await asyncio.sleep(0)
        go_on.set()
        return [frame.head.count for frame in await asyncio.gather(*calls)] == [*sizes]

    assert with_connection(act)


def test_a_child_does_not_send_what_its_parent_has_gathered(peer, with_counted):
    async def act(connection, sock):
        connection._crowded = True
        await connection.start(Describe())
        assert connection._gathered
        connection.after_fork(this_process())
        before = sock.calls
        await asyncio.sleep(0)
        return sock.calls - before

    assert with_counted(act) == 0


def test_silence_past_the_time_loses_the_connection(peer, with_connection):
    peer.on[Describe] = keep_silent

    async def act(connection):
        for_ever = asyncio.create_task(connection.call(Describe(), ManagerState))
        with pytest.raises(ConnectionLost, match="did not answer"):
            await connection.call(Describe(), ManagerState, wait_s=0.01)
        with pytest.raises(ConnectionLost, match="did not answer"):
            await for_ever
        assert not connection.alive

    with_connection(act)


def test_what_was_given_up_is_left_behind_and_its_answer_dropped(peer, with_connection):
    held, kept = threading.Event(), []
    peer.on[Describe] = lambda visit, frame: (kept.append((visit, frame)), held.set())
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))

    async def act(connection):
        asking = asyncio.create_task(connection.call(Describe(), Done))
        await until(held)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        visit, frame = kept[0]
        visit.answer(frame, Done(1))
        return (await connection.ask(ListQueues(), QueueList)).queues

    assert with_connection(act) == []


def test_a_receive_that_is_given_up_is_aborted_and_costs_no_connection(peer, with_manager):
    asked = threading.Event()
    peer.on[Receive] = noting(asked)

    async def act(manager):
        receiving = asyncio.create_task(manager.queue("orders").receive())
        await until(asked)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving

    with_manager(act)
    (receive,) = peer.of(Receive)
    assert receive.claim
    assert peer.of(Abort) == [Abort(receive.transaction)]
    assert len(peer.visits) == 1


def test_a_frame_that_is_half_sent_gives_the_connection_up(peer, with_connection):
    reading, go_on = threading.Event(), threading.Event()

    def stop_reading(visit, frame):
        reading.set()
        go_on.wait(DEADLINE_S)

    peer.on[Describe] = stop_reading

    async def act(connection):
        await connection.start(Describe())
        await until(reading)
        sending = asyncio.create_task(
            connection.call(Send(1, 0, [], []), Done, body=[bytes(1 << 22)])
        )
        behind = asyncio.create_task(connection.call(ListQueues(), QueueList))
        for _ in range(20):
            await asyncio.sleep(0)
        assert connection._sending.locked()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        go_on.set()
        with pytest.raises(ConnectionLost):
            await behind
        assert connection._sock.fileno() == -1

    with_connection(act)


def test_a_peer_that_hangs_up_while_a_frame_is_sent_is_told(peer, with_connection):
    reading, go_on = threading.Event(), threading.Event()

    def refuse_to_read(visit, frame):
        reading.set()
        go_on.wait(DEADLINE_S)
        visit.hang_up()

    peer.on[Describe] = refuse_to_read

    async def act(connection):
        await connection.start(Describe())
        await until(reading)
        sending = asyncio.create_task(
            connection.call(Send(1, 0, [], []), Done, body=[bytes(1 << 22)])
        )
        for _ in range(20):
            await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(ConnectionLost):
            await sending
        assert connection._sock.fileno() == -1

    with_connection(act)


@pytest.mark.parametrize("ending", [hang_up, "bytes", "reason"])
def test_a_connection_that_ends_ends_every_request(peer, with_connection, ending):
    def speak(visit, frame):
        visit.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def refuse(visit, frame):
        visit.say(encode_frame(Failed("protocol-error", "never heard of that")))
        visit.hang_up()

    peer.on[Outcome] = keep_silent
    peer.on[Describe] = {"bytes": speak, "reason": refuse}.get(ending, ending)
    expected = ConnectionLost if ending is hang_up else ProtocolError

    async def act(connection):
        waiting = asyncio.create_task(connection.call(Outcome("x"), OutcomeIs))
        errors = await asyncio.gather(
            connection.call(Describe(), ManagerState), waiting, return_exceptions=True
        )
        assert [type(error) for error in errors] == [expected] * 2
        assert errors[0] is not errors[1]
        assert connection._sock.fileno() == -1

    with_connection(act)


def test_an_answer_of_another_kind_ends_the_connection(peer, with_connection):
    peer.on[Describe] = lambda visit, frame: visit.answer(frame, Done())

    async def act(connection):
        with pytest.raises(ProtocolError, match="Done instead of ManagerState"):
            await connection.call(Describe(), ManagerState)
        assert not connection.alive

    with_connection(act)


def test_a_peer_that_went_away_is_noticed_by_sending(peer, with_connection):
    async def act(connection):
        await asyncio.to_thread(peer.visits[0].close)
        for _ in range(2):
            with pytest.raises(ConnectionLost):
                await connection.call(Describe(), ManagerState)

    with_connection(act)


def test_the_next_call_connects_anew(peer, with_manager):
    peer.on[ListQueues] = lambda visit, frame: visit.answer(frame, QueueList([]))

    async def act(manager):
        await manager.queues()
        await asyncio.to_thread(peer.visits[0].close)
        return await manager.queues()

    assert with_manager(act) == []
    assert len(peer.visits) == 2


def test_a_receive_whose_end_is_lost_says_that_the_connection_is(peer, with_manager):
    record = record_of(Message(body=b"x"), bytes.fromhex(MANAGER_ID), 7)

    def give(visit, frame):
        envelope = Envelope(1, record.size, record.crc, 1, 0, 0, 0)
        visit.answer(frame, Messages([envelope]), record.head + bytes(record.body))

    peer.on[Receive] = give
    peer.on[Commit] = hang_up
    peer.on[Outcome] = lambda visit, frame: visit.answer(frame, OutcomeIs("aborted"))

    async def act(manager):
        with pytest.raises(ConnectionLost, match="closed the connection") as caught:
            await manager.queue("orders").receive()
        assert caught.value.retryable

    with_manager(act)


def test_an_interrupted_commit_is_in_doubt(peer, with_manager):
    asked = threading.Event()
    peer.on[Commit] = noting(asked)

    async def act(manager):
        transaction = await manager.transaction()
        await manager.queue("orders").send(b"x", transaction=transaction)
        committing = asyncio.create_task(transaction.commit())
        await until(asked)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        return transaction.status

    assert with_manager(act) is TransactionStatus.IN_DOUBT
