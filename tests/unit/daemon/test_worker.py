"""The thread that waits for the disk."""

from __future__ import annotations

import asyncio
import threading

import pytest

from dray.daemon.pacing.worker import SideBySide, Worker


def test_jobs_run_in_order_in_another_thread_and_outcomes_in_the_loop():
    seen: list[object] = []

    async def main() -> None:
        worker = Worker(asyncio.get_running_loop(), "w")
        here = threading.get_ident()
        worker.submit(lambda: seen.append(threading.get_ident() != here), seen.append)
        worker.submit(lambda: 1 // 0, lambda error: seen.append(type(error)))
        worker.submit(lambda: None, lambda _: seen.append(threading.get_ident() == here))
        await worker.idle()
        worker.stop()

    asyncio.run(main())
    assert seen == [True, None, ZeroDivisionError, True]


def test_stopping_finishes_what_was_submitted():
    done: list[int] = []

    async def main() -> None:
        worker = Worker(asyncio.get_running_loop(), "w")
        for number in range(100):
            worker.submit(lambda number=number: done.append(number), lambda _: None)
        worker.stop()

    asyncio.run(main())
    assert done == list(range(100))


@pytest.mark.parametrize("failing", [None, 0, 1])
def test_the_loop_hears_once_of_jobs_side_by_side_and_of_an_error_at_once(failing):
    heard: list[BaseException | None] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        workers = [Worker(loop, "one"), Worker(loop, "other")]
        go_on = [threading.Event(), threading.Event()]

        def job(number: int) -> None:
            assert go_on[number].wait(100)
            if number == failing:
                raise OSError

        beside = SideBySide(2)
        for number, worker in enumerate(workers):
            worker.submit(lambda number=number: job(number), heard.append, beside)
        go_on[0].set()
        await workers[0].idle()
        assert [type(error) for error in heard] == ([OSError] if failing == 0 else [])
        go_on[1].set()
        for worker in workers:
            await worker.idle()
            worker.stop()

    asyncio.run(main())
    expected = {None: [type(None)], 0: [OSError, type(None)], 1: [OSError]}[failing]
    assert [type(error) for error in heard] == expected


def test_a_job_runs_beside_another_thread_which_waits_for_its_end():
    seen: list[object] = []

    async def main() -> None:
        worker = Worker(asyncio.get_running_loop(), "w")
        worker.beside(lambda: seen.append(threading.current_thread().name))()
        with pytest.raises(ZeroDivisionError):
            worker.beside(lambda: 1 // 0)()
        worker.stop()

    asyncio.run(main())
    assert seen == ["w"]
