"""The thread that waits for the disk."""

from __future__ import annotations

import asyncio
import threading

from dray.daemon.pacing.worker import Worker


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
