"""One thread that waits for the disk, so that the loop need not.

Jobs run in the order in which they were submitted; each outcome is told to the loop. A pool of the
standard library does the same at a higher price per job, and group commit pays it per sync.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

Job = Callable[[], object]
Outcome = Callable[[BaseException | None], None]


class SideBySide:
    """Jobs that several workers run at the same time, and of which the loop hears once."""

    def __init__(self, jobs: int) -> None:
        """Begin with none of so many ended."""
        self._jobs = jobs
        # One step of it cannot be divided, whichever threads take steps.
        self._ended = itertools.count(1)

    def is_last(self) -> bool:
        """Note that one more has ended; whether all have."""
        return next(self._ended) == self._jobs


class Worker:
    """A thread of its own with a line of jobs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        """Start the thread; outcomes are called in `loop`."""
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[Job, Outcome, SideBySide] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, outcome: Outcome, beside: SideBySide | None = None) -> None:
        """Run `job` in the thread, then `outcome` in the loop with the error it raised, or None.

        Where the job runs `beside` others, the loop hears None from the last of them only.
        """
        self._jobs.put((job, outcome, beside or SideBySide(1)))

    def beside(self, job: Job) -> Callable[[], object]:
        """Run `job` in the thread while the caller does something else, in any other thread.

        Call what this gives to wait for the end of the job; it raises the error of the job.
        """
        ended: Future[None] = Future()

        def run() -> None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001 - raised to the one who waits
                ended.set_exception(error)
            else:
                ended.set_result(None)

        # The caller is the other of two, so the loop hears nothing.
        self._jobs.put((run, _told_nothing, SideBySide(2)))
        return ended.result

    async def idle(self) -> None:
        """Wait until everything submitted so far has been done and told."""
        passed: asyncio.Future[None] = self._loop.create_future()

        def told(_error: BaseException | None) -> None:
            if not passed.done():
                passed.set_result(None)

        self.submit(_nothing, told)
        await passed

    def stop(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (entry := self._jobs.get()) is not None:
            job, outcome, beside = entry
            error: BaseException | None = None
            try:
                job()
            except BaseException as raised:  # noqa: BLE001 - told to the loop, which acts on it
                error = raised
            if beside.is_last() or error is not None:
                self._loop.call_soon_threadsafe(outcome, error)


def _nothing() -> None:
    """Pass through the line."""


def _told_nothing(_error: BaseException | None) -> None:
    """Hear the outcome of a job for which another thread waits."""
