"""Promises that only the awaited face has to keep: calls are given up, messages are not."""

from __future__ import annotations

import asyncio
import hashlib
import random
import uuid

import pytest

import dray
import dray.aio
from dray.client.calls.public_calls import inner_calls
from dray.wire.selections import SelectFirst

DEADLINE_S = 100


@pytest.fixture(params=["tcp", "unix"])
def in_loop(request, addresses):
    """Runs a coroutine function with a manager and a queue of its own."""

    def run(act, **options):
        async def acted():
            async with (
                asyncio.timeout(DEADLINE_S),
                dray.aio.connect(addresses[request.param]) as manager,
            ):
                queue = await manager.create_queue(f"q-{uuid.uuid4().hex}", **options)
                return await act(manager, queue)

        return asyncio.run(acted())

    return run


async def waiting(queue, count=1):
    """Let tasks run until that many receives wait at the queue manager."""
    # Requests are answered in order, so this one's answer comes after theirs was not.
    for _ in range(count):
        await asyncio.sleep(0)
    await queue.info()


def test_a_given_up_receive_takes_nothing_and_the_connection_stays(in_loop):
    async def act(manager, queue):
        begun = await manager.transaction()
        await queue.send(b"in it", transaction=begun)
        for _ in range(20):
            receiving = asyncio.create_task(queue.receive())
            await waiting(queue, 5)
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
        await begun.commit()
        await queue.send(b"after")
        return [(await queue.receive(0)).body for _ in range(2)]

    assert in_loop(act) == [b"in it", b"after"]


@pytest.mark.slow
def test_a_receive_with_a_time_limit_of_asyncio_loses_no_message(in_loop):
    async def act(manager, queue):
        count, taken = 200, []
        pauses = random.Random(5)

        async def send():
            for number in range(count):
                await queue.send(b"%d" % number)

        async def take():
            while len(taken) < count:
                try:
                    async with asyncio.timeout(pauses.uniform(0, 0.004)):
                        taken.append(int((await queue.receive()).body))
                except TimeoutError:
                    continue

        await asyncio.gather(send(), take())
        return taken

    # An abort puts a message back in its place, so they also come in order.
    assert in_loop(act) == list(range(200))


@pytest.mark.slow
def test_however_many_receives_are_cancelled_each_message_comes_once(in_loop):
    async def act(manager, queue):
        count, taken = 150, []
        chance = random.Random(6)

        async def take():
            while len(taken) < count:
                taken.append((await queue.receive()).body)

        async def disturb(takers):
            while len(taken) < count:
                for _ in range(chance.randrange(60)):
                    await asyncio.sleep(0)
                at = chance.randrange(len(takers))
                if takers[at].cancel():
                    await asyncio.wait([takers[at]])
                    takers[at] = asyncio.create_task(take())

        takers = [asyncio.create_task(take()) for _ in range(3)]
        disturbing = asyncio.create_task(disturb(takers))
        for number in range(count):
            await queue.send(b"%d" % number)
        await disturbing
        for taker in takers:
            taker.cancel()
        await asyncio.wait(takers)
        return taken, await queue.info()

    taken, info = in_loop(act)
    assert sorted(map(int, taken)) == list(range(150))
    assert info.message_count == 0


def test_a_message_that_is_being_removed_comes_though_all_tasks_are_cancelled(in_loop):
    """As `asyncio.run` does when its coroutine ends, and programs that shut down do."""

    async def act(manager, queue):
        for body in (b"plain", b"whole"):
            await queue.send(body)
        taken = []
        for taking in (queue.receive, queue.receive_transaction):
            receiving = asyncio.create_task(taking())
            before = asyncio.all_tasks()
            while asyncio.all_tasks() <= before:
                await queue.info()
            for each in asyncio.all_tasks() - {asyncio.current_task()}:
                each.cancel()
            taken.append(await receiving)
        return taken[0].body, taken[1].messages[0].body, (await queue.info()).message_count

    assert in_loop(act) == (b"plain", b"whole", 0)


def test_a_given_up_call_in_a_transaction_leaves_only_its_abort(in_loop):
    async def act(manager, queue):
        transaction = await manager.transaction()
        receiving = asyncio.create_task(queue.receive(transaction=transaction))
        await waiting(queue, 5)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        with pytest.raises(dray.TransactionAborted, match="was cancelled"):
            await transaction.commit()
        await queue.send(b"free")
        return (await queue.receive(0)).body

    assert in_loop(act) == b"free"


IN_A_TRANSACTION = {
    "send": lambda queue, given: queue.send(b"x", transaction=given),
    "send_many": lambda queue, given: queue.send_many([b"x", b"y"], given),
    "receive_many": lambda queue, given: queue.receive_many(2, timeout=0, transaction=given),
    "settle": lambda queue, given: queue.settle(1, transaction=given),
    "reject": lambda queue, given: queue.reject(1, given),
    "move": lambda queue, given: queue.move(1, f"{queue.name};aside", given),
    "cursor": lambda queue, given: queue.cursor().receive(0, given),
    "whole": lambda queue, given: queue.receive_transaction(0, given),
    "large send": lambda queue, given: dray.aio.LargeMessageQueue(queue).send(
        b"x", transaction=given
    ),
    "large receive": lambda queue, given: (
        dray.aio.LargeMessageQueue(queue).receive(0, given).__aenter__()
    ),
}


@pytest.mark.parametrize("name", IN_A_TRANSACTION)
def test_a_call_given_up_at_its_first_wait_dooms_the_transaction_that_it_was_given(in_loop, name):
    async def act(manager, queue):
        transaction = await manager.transaction()
        # The name of the queue is not resolved yet, so each call begins with a wait.
        calling = asyncio.create_task(IN_A_TRANSACTION[name](queue, transaction))
        await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        with pytest.raises(dray.TransactionAborted, match="was cancelled"):
            await transaction.commit()

    in_loop(act)


def test_a_given_up_receive_of_a_queue_without_transactions_gives_its_connection_up(in_loop):
    async def act(manager, queue):
        receiving = asyncio.create_task(queue.receive())
        await waiting(queue, 5)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await queue.send(b"x")
        return (await queue.receive(10)).body

    assert in_loop(act, transactional=False) == b"x"


def test_a_given_up_large_receive_gives_the_message_back(in_loop):
    body = random.Random(7).randbytes(3_000_000)

    async def act(manager, queue):
        await manager.create_queue("statusq", exist_ok=True)
        large = dray.aio.LargeMessageQueue(queue, fragment_size=200_000)
        receiving = asyncio.create_task(large.take(SelectFirst(), None, None, repair=False))
        await waiting(queue, 5)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        await large.send(body, digest="sha256")

        async def read_half():
            async with large.receive() as message:
                await message.read(1_000_000)
                await asyncio.get_running_loop().create_future()

        reading = asyncio.create_task(read_half())
        await waiting(queue, 50)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        async with large.receive(10) as message:
            digest = hashlib.sha256()
            async for piece in message:
                digest.update(piece)
        return digest.digest() == message.digest, (await queue.info()).message_count

    assert in_loop(act) == (True, 0)


@pytest.mark.parametrize("size", [-1, 450_000])
def test_a_given_up_read_takes_nothing_from_the_next(in_loop, size):
    """Wherever it was given up: the body goes on where the last whole read has ended."""
    body = random.Random(8).randbytes(3_000_000)

    async def act(manager, queue):
        await manager.create_queue("statusq", exist_ok=True)
        large = dray.aio.LargeMessageQueue(queue, fragment_size=200_000)
        await large.send(body)
        given_up = 0
        async with large.receive(10) as message:
            begin = await message.read(250_000)
            for turns in range(12):
                reading = asyncio.create_task(message.read(size))
                for _ in range(turns):
                    await asyncio.sleep(0)
                if reading.done():
                    begin += await reading
                    continue
                reading.cancel()
                try:
                    begin += await reading
                except asyncio.CancelledError:
                    given_up += 1
            return given_up > 0, begin + await message.read() == body, await message.read()

    assert in_loop(act) == (True, True, b"")


def test_tasks_that_read_on_take_turns(in_loop):
    body = random.Random(9).randbytes(3_000_000)

    async def act(manager, queue):
        await manager.create_queue("statusq", exist_ok=True)
        large = dray.aio.LargeMessageQueue(queue, fragment_size=200_000)
        await large.send(body)
        async with large.receive(10) as message:
            read = await asyncio.gather(*(message.read(50_000) for _ in range(60)))
        return b"".join(read) == body

    assert in_loop(act)


def test_a_given_up_large_send_leaves_nothing(in_loop, tmp_path):
    async def act(manager, queue):
        large = dray.aio.LargeMessageQueue(queue)
        begun = asyncio.Event()

        async def endless():
            while True:
                begun.set()
                yield bytes(1_000_000)
                await asyncio.sleep(0)

        sending = asyncio.create_task(large.send(endless()))
        await begun.wait()
        await waiting(queue)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        return (await queue.info()).message_count

    assert in_loop(act) == 0


def test_an_asynchronous_iterable_is_sent_as_its_bytes(in_loop):
    async def act(manager, queue):
        await manager.create_queue("statusq", exist_ok=True)
        large = dray.aio.LargeMessageQueue(queue, fragment_size=1000)

        async def chunks():
            for number in range(50):
                await asyncio.sleep(0)
                yield bytes([number]) * 333

        await large.send(chunks())
        async with large.receive(10) as message:
            return await message.body()

    assert in_loop(act) == b"".join(bytes([number]) * 333 for number in range(50))


def test_what_is_read_with_await_is_sent_as_its_bytes(in_loop):
    """A stream of asyncio's, and a large message that is passed on to another queue."""
    body = random.Random(3).randbytes(250_000)

    async def act(manager, queue):
        await manager.create_queue("statusq", exist_ok=True)
        large = dray.aio.LargeMessageQueue(queue, fragment_size=60_000)
        stream = asyncio.StreamReader()
        stream.feed_data(body)
        stream.feed_eof()
        await large.send(stream)
        for opened in (False, True):
            async with (
                manager.transaction() as transaction,
                large.receive(10, transaction) as message,
            ):
                source = message.open() if opened else message
                await large.send(source, transaction=transaction)
        async with large.receive(10) as message:
            return await message.body()

    assert in_loop(act) == body


def test_tasks_share_one_connection_and_one_that_waits_stops_no_other(in_loop):
    async def act(manager, queue):
        receiving = [asyncio.create_task(queue.receive(10)) for _ in range(20)]
        await asyncio.gather(*(queue.send(bytes(100_000)) for _ in range(20)))
        return [len((await each).body) for each in receiving]

    assert in_loop(act) == [100_000] * 20


@pytest.mark.slow
def test_while_a_large_message_is_sent_and_read_the_loop_goes_on(in_loop, tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(random.Random(8).randbytes(20_000_000))

    async def act(manager, queue):
        await manager.create_queue("statusq", exist_ok=True)
        large = dray.aio.LargeMessageQueue(queue)
        beats = 0

        async def beat():
            nonlocal beats
            while True:
                beats += 1
                await asyncio.sleep(0)

        beating = asyncio.create_task(beat())
        await large.send(source)
        async with large.receive(10) as message:
            await message.save_to(target)
        beating.cancel()
        return beats

    assert in_loop(act) > 20
    assert target.read_bytes() == source.read_bytes()


def test_what_is_opened_can_be_awaited_or_used_in_a_block(addresses):
    async def act():
        manager = await dray.aio.connect(addresses["tcp"])
        transaction = await manager.transaction()
        await transaction.abort()
        async with manager:
            assert (await manager.info()).version == dray.__version__
        with pytest.raises(dray.ConnectionLost, match="closed"):
            await manager.info()

    asyncio.run(act())


def test_a_call_in_another_loop_is_refused_and_costs_the_first_loop_nothing(in_loop):
    async def act(manager, queue):
        transaction = await manager.transaction()
        await queue.send(b"x", transaction=transaction)

        def elsewhere(call):
            with pytest.raises(dray.Misuse, match="belongs to another event loop"):
                asyncio.run(asyncio.wait_for(call(), DEADLINE_S))

        for call in (queue.info, manager.info, transaction.commit):
            await asyncio.to_thread(elsewhere, call)
        await transaction.commit()
        return (await queue.receive(0)).body

    assert in_loop(act) == b"x"


def test_a_given_up_open_leaves_no_queue_manager_behind(tmp_path):
    async def act():
        for wait_s in (0, 0.003, 0.01, 0.03):
            opening = asyncio.ensure_future(dray.aio.open(tmp_path / "data"))
            await asyncio.wait([opening], timeout=wait_s)
            if opening.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await opening
            else:
                await (await opening).close()
        async with dray.aio.open(tmp_path / "data") as manager:
            return (await manager.info()).version

    assert asyncio.run(act()) == dray.__version__


def test_the_awaited_face_has_every_name_of_the_blocking_one():
    from dray.client.blocking import (
        large,
        large_message,
        manager,
        queue,
        receiver,
        transaction,
    )

    pairs = [
        (manager.Manager, dray.aio.Manager),
        (queue.Queue, dray.aio.Queue),
        (queue.Cursor, dray.aio.Cursor),
        (transaction.Transaction, dray.aio.Transaction),
        (large.LargeMessageQueue, dray.aio.LargeMessageQueue),
        (large_message.LargeMessage, dray.aio.LargeMessage),
        (receiver.Receiver, dray.aio.Receiver),
    ]
    for blocking, awaited in pairs:
        public = {name for name in vars(blocking) if not name.startswith("_")}
        offered = {name for name in dir(awaited) if not name.startswith("_")}
        extra = {"handle"} if blocking is queue.Queue else set()
        instance = {"id", "fragment_size"}
        assert public - extra - instance <= offered
        missing = {
            name
            for name in vars(awaited)
            if not name.startswith("_")
            and name
            not in {
                "awaited",
                "begin",
                "connected",
                "connection",
                "is_here",
                "next_after",
                "send",
                "under_way",
                *inner_calls(awaited),
            }
        } - {name for cls in blocking.__mro__ for name in vars(cls)}
        assert not missing


def test_a_close_that_is_cancelled_while_a_transfer_stops_leaves_no_queue_manager_behind(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    (tmp_path / "file").write_bytes(b"x")

    async def act():
        manager = await dray.aio.open(tmp_path / "data")
        await manager.create_queue("files")
        await manager.offer_file(tmp_path / "file", "files")
        closing = asyncio.ensure_future(manager.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        async with dray.aio.open(tmp_path / "data") as manager:
            return (await manager.info()).version

    assert asyncio.run(act()) == dray.__version__
