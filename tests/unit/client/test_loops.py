"""How waiting ends in an event loop when it is cancelled."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dray.client.connections.loops import LoopRuntime
from dray.client.connections.threads import BlockingRuntime, run
from dray.client.files.sources import AwaitedChunkSource, BytesSource, pieces_of

DEADLINE_S = 100
COUNT = 100


def in_loop(act):
    async def acted():
        async with asyncio.timeout(DEADLINE_S):
            return await act(LoopRuntime())

    return asyncio.run(acted())


async def begun(event):
    assert await asyncio.to_thread(event.wait, DEADLINE_S)


def cancel_all(task):
    """As `asyncio.run` does at its end."""
    del task
    for each in asyncio.all_tasks() - {asyncio.current_task()}:
        each.cancel()


async def cancelled(task):
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("cancel", [asyncio.Task.cancel, cancel_all])
@pytest.mark.parametrize("how", ["offload", "result"])
def test_what_a_thread_does_has_ended_when_the_call_has(how, cancel):
    started, go_on, done = threading.Event(), threading.Event(), []

    def work():
        started.set()
        go_on.wait(DEADLINE_S)
        done.append(True)
        raise ValueError("too late to be told")

    async def act(runtime):
        with ThreadPoolExecutor(1) as pool:
            waiting = (
                runtime.offload(work) if how == "offload" else runtime.result(pool.submit(work))
            )
            task = asyncio.create_task(waiting)
            await begun(started)
            cancel(task)
            # Cancelling again does not cut it short either.
            await asyncio.sleep(0)
            cancel(task)
            await asyncio.sleep(0)
            assert not task.done()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        return done

    assert in_loop(act) == [True]


def test_what_a_thread_raises_is_raised():
    async def act(runtime):
        with pytest.raises(ZeroDivisionError):
            await runtime.offload(lambda: 1 / 0)

    in_loop(act)


def test_what_cannot_be_undone_ends_and_the_cancellation_comes_behind_it():
    async def act(runtime):
        go_on, kept = asyncio.Event(), []

        async def irrevocable():
            await go_on.wait()
            return "a message"

        async def user():
            kept.append(await runtime.to_its_end(irrevocable()))
            await asyncio.get_running_loop().create_future()

        task = asyncio.create_task(user())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return kept

    assert in_loop(act) == ["a message"]


def test_a_time_limit_that_is_left_with_the_result_in_hand_was_kept():
    async def act(runtime):
        async def irrevocable():
            # Until after the time limit has struck.
            for _ in range(20):
                await asyncio.sleep(0)
            assert limited.cancelling()
            return "a message"

        limited = asyncio.current_task()
        async with asyncio.timeout(0):
            kept = await runtime.to_its_end(irrevocable())
        # Nothing of the cancellation is left for whatever is awaited next.
        for _ in range(5):
            await asyncio.sleep(0)
        return kept

    assert in_loop(act) == "a message"


def test_what_fails_on_the_way_to_its_end_is_raised():
    async def act(runtime):
        async def failing():
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await runtime.to_its_end(failing())

    in_loop(act)


def test_a_connection_that_nobody_waits_for_any_more_is_hung_up():
    started, go_on = threading.Event(), threading.Event()
    ours, theirs = socket.socketpair()

    class Slow:
        def dial(self):
            started.set()
            go_on.wait(DEADLINE_S)
            return theirs

    async def act(runtime):
        task = asyncio.create_task(runtime.connect(Slow()))
        await begun(started)
        await cancelled(task)
        go_on.set()
        return await asyncio.to_thread(ours.recv, 1)

    ours.settimeout(DEADLINE_S)
    assert in_loop(act) == b""
    ours.close()


@pytest.mark.parametrize("runtime", [BlockingRuntime, LoopRuntime])
def test_a_blocking_context_hears_how_its_block_ended(runtime):
    heard = []

    class Context:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            heard.append(kind)
            return kind is KeyError

    async def act():
        async with runtime().within(Context()):
            pass
        async with runtime().within(Context()):
            raise KeyError
        with pytest.raises(ValueError, match="told"):
            async with runtime().within(Context()):
                raise ValueError("told")

    if runtime is LoopRuntime:
        asyncio.run(act())
    else:
        run(act())
    assert heard == [None, KeyError, ValueError]


async def without_waiting():
    for _ in range(COUNT):
        yield b"x" * 10


@pytest.mark.parametrize(
    "source",
    [lambda: BytesSource(bytes(10 * COUNT)), lambda: AwaitedChunkSource(without_waiting())],
    ids=["bytes", "chunks"],
)
def test_others_have_their_turn_before_each_piece_of_a_body(source):
    async def act(runtime):
        turns = []

        async def ticking():
            while True:
                turns.append(True)
                await asyncio.sleep(0)

        ticker = asyncio.create_task(ticking())
        pieces = [len(piece) async for piece in pieces_of(source(), 10, runtime)]
        await cancelled(ticker)
        return len(pieces), len(turns)

    assert in_loop(act) == (COUNT, COUNT)
