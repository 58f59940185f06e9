"""A few threads that work with clients' files, of which none holds up the others for long.

A file may lie on a file system that does not answer, and a thread in such a call cannot be called
back. A job that takes too long is given up: whoever waits for it is told, another thread takes the
place of the one that is stuck, and what the job uses is freed when the call returns, if it does.

    waiting -> running -> ended                   freed, then told: None or what it raised
                       -> given up                told: FileHungError; one thread more
                             -> ended            freed; one thread less
    waiting -> refused                            freed, then told, when all threads are stuck

Threads take jobs in the order in which they came. At most `COPIES_STUCK_MAX` threads are made for
those that are stuck.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable

from dray.daemon.limits import COPIES_STUCK_MAX, COPY_S, COPY_THREADS

Work = Callable[[], object]
Told = Callable[[BaseException | None], None]
Freed = Callable[[], None]


class FileHungError(OSError):
    """A file of a client's was not read or written in time."""


class _Job:
    """Something to do with files that are closed when it is done."""

    __slots__ = ("began", "files", "freed", "given_up", "told", "work")

    def __init__(self, work: Work, files: tuple[int, ...], told: Told, freed: Freed) -> None:
        self.work = work
        self.files = files
        self.told = told
        self.freed = freed
        self.began = 0.0
        self.given_up = False

    def close(self) -> None:
        for descriptor in self.files:
            os.close(descriptor)


class CopyThreads:
    """The threads of one daemon; driven in its loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start as many as are wanted when none is stuck."""
        self._loop = loop
        self._line: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._unfinished: dict[_Job, None] = {}
        self._threads: list[threading.Thread] = []
        self._wanted = 0
        self.stuck = 0
        """The number that wait for a file system that does not answer."""
        self._timer: asyncio.TimerHandle | None = None
        self._passed: asyncio.Future[None] | None = None
        for _ in range(COPY_THREADS):
            self._start_one()

    @property
    def busy(self) -> bool:
        """Whether something was neither done nor given up."""
        return bool(self._unfinished)

    def submit(
        self, work: Work, files: tuple[int, ...], told: Told, freed: Freed = lambda: None
    ) -> None:
        """Do `work`, then close `files`; both callbacks are called in the loop, once.

        `told` gets the error, or None. `freed` says that nothing of the work is used any more.
        """
        job = _Job(work, files, told, freed)
        self._unfinished[job] = None
        if self.stuck == self._wanted:
            self._loop.call_soon(self._refuse, job)
            return
        self._line.put(job)
        self._watch()

    async def idle(self) -> None:
        """Wait until everything submitted so far has been done and told, or given up."""
        while self._unfinished:
            self._passed = self._loop.create_future()
            await self._passed

    def stop(self) -> None:
        """End the threads, which must be idle; those that are stuck end with the process."""
        if self._timer is not None:
            self._timer.cancel()
        for _ in range(self._wanted):
            self._line.put(None)
        for thread in self._threads if not self.stuck else ():
            thread.join()

    def _start_one(self) -> None:
        self._wanted += 1
        name = f"dray-copy-{self._wanted}"
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
        self._threads[-1].start()

    def _run(self) -> None:
        while (job := self._line.get()) is not None:
            error: BaseException | None = None
            job.began = self._loop.time()
            try:
                job.work()
            except BaseException as raised:  # noqa: BLE001 - told to the loop, which acts on it
                error = raised
            finally:
                job.close()
            try:
                self._loop.call_soon_threadsafe(self._ended, job, error)
            except RuntimeError:
                # The daemon has ended while this one was stuck: nobody is left to be told.
                return

    def _ended(self, job: _Job, error: BaseException | None) -> None:
        if not job.given_up:
            job.freed()
            self._tell(job, error)
            return
        self.stuck -= 1
        if self._wanted > COPY_THREADS + self.stuck:
            self._wanted -= 1
            self._line.put(None)
        job.freed()

    def _tell(self, job: _Job, error: BaseException | None) -> None:
        self._unfinished.pop(job, None)
        job.told(error)
        if not self._unfinished and self._passed is not None and not self._passed.done():
            self._passed.set_result(None)

    def _refuse(self, job: _Job) -> None:
        job.close()
        job.freed()
        self._tell(
            job,
            FileHungError(
                "too many files were lent that lie on file systems which do not answer; try again"
            ),
        )

    def _watch(self) -> None:
        if self._timer is None and self._unfinished:
            self._timer = self._loop.call_later(COPY_S / 4, self._look)

    def _look(self) -> None:
        """Give up what takes too long, and if that was the last thread, what waits for one."""
        self._timer = None
        late = self._loop.time() - COPY_S
        for job in [each for each in self._unfinished if each.began and each.began <= late]:
            job.given_up = True
            self.stuck += 1
            if self._wanted < COPY_THREADS + COPIES_STUCK_MAX:
                self._start_one()
            self._tell(job, FileHungError(f"its file system did not answer within {COPY_S:g} s"))
        while self.stuck == self._wanted:
            try:
                job_or_end = self._line.get_nowait()
            except queue.Empty:
                break
            assert job_or_end is not None, "threads are ended when there are too many"
            self._refuse(job_or_end)
        self._watch()
