"""File transfers as programs hold them: an offer at one end, a file that comes in at the other.

What runs a transfer is a thread of its own (`client.transfer`); here it is started, told what to
do, and watched. Nothing here ends with the caller's patience: an offer goes on until it is done,
cancelled, or its manager's handle is closed, and what is unfinished then can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from dray.client.calls.public_calls import public
from dray.client.calls.requests import check_timeout
from dray.client.files.progress import INTERVAL_S, Progress
from dray.client.transfer.accepting import Accepting, fragments_there
from dray.client.transfer.board import Board
from dray.client.transfer.control import Act, Order, give_order
from dray.client.transfer.offering import Offering, no_consumer
from dray.client.transfer.state import Incoming as KeptIncoming
from dray.client.transfer.state import StateFile, control_path, status_of_incoming
from dray.errors import (
    Misuse,
    TargetUnwritable,
    TransferCancelled,
    TransferTimeout,
)
from dray.forks import Process, check_process, is_here, this_process
from dray.model.transfer import TransferState, TransferStatus
from dray.transfer.events import Cancel, Resume, Suspend

if TYPE_CHECKING:
    from dray.client.connections.link import Link
    from dray.client.connections.runtime import Runtime
    from dray.client.transfer.reference import Reference


async def news(runtime: Runtime, board: Board) -> AsyncGenerator[TransferStatus, None]:
    """Every change from now on, at most ten times a second; the last one is the end."""
    version, told_at = 0, 0.0
    here = this_process()
    while True:
        _check_runs_here(here, board.status.transfer_id)
        over = board.over
        version, changed = board.since(version)
        told_at = time.monotonic()
        for status in changed:
            yield status
        if over:
            if not changed or changed[-1] != board.status:
                yield board.status
            return
        await runtime.arrives(board.news(version))
        left = told_at + INTERVAL_S - time.monotonic()
        if left > 0 and not board.over:
            await runtime.arrives(board.ending(), left)


@public(made_by="Manager.offer_file")
class Offer:
    """A file that is offered. Iterate over it for its progress, or `wait` for its end."""

    def __init__(self, link: Link, engine: Offering) -> None:
        """Take what runs it."""
        self._link = link
        self._engine = engine

    def __repr__(self) -> str:
        status = self.status
        return f"<Offer {status.transfer_id} {status.label!r} {status.state}>"

    @property
    def transfer_id(self) -> str:
        """Its id, by which it can be resumed."""
        return self._engine.kept.reference.transfer

    @property
    def digest(self) -> bytes:
        """Of the file, 32 bytes: known before it moves."""
        return self._engine.kept.reference.fingerprint.digest

    @property
    def digest_kind(self) -> str:
        """Which digest it is: "sha256" or "blake3"."""
        return self._engine.kept.reference.fingerprint.kind

    @property
    def status(self) -> TransferStatus:
        """How it stands as a whole."""
        return self._engine.board.status

    @property
    def consumers(self) -> list[TransferStatus]:
        """How each of its consumers stands."""
        self._check_here()
        return self._engine.board.consumers

    def __aiter__(self) -> AsyncIterator[TransferStatus]:
        """Give each change of a consumer, or of the whole while there is none, and the end."""
        return self.statuses()

    def statuses(self) -> AsyncGenerator[TransferStatus, None]:
        """What iteration gives."""
        self._check_here()
        return news(self._link.runtime, self._engine.board)

    async def wait(self, timeout: float | None = None) -> TransferStatus:
        """Wait until it is over; give how it ended.

        Raises `TransferTimeout` if nobody asked for it in time or `timeout` seconds have passed,
        `TransferCancelled`, `TransferSourceChanged`.
        """
        check_timeout(timeout)
        self._check_here()
        board = self._engine.board
        if not await self._link.runtime.arrives(board.ending(), timeout):
            raise TransferTimeout(
                f"the offer of {self.status.path} is not done after {timeout:g} s; it continues",
                transfer_id=self.transfer_id,
            )
        if board.error is not None:
            raise board.error
        return board.status

    async def suspend(self, consumer_id: str = "") -> None:
        """Stop sending, to one consumer or to all, until either end resumes."""
        await self._do(Suspend(consumer_id))

    async def resume(self, consumer_id: str = "") -> None:
        """Go on. Raises `TransferSourceChanged` if the file is not what it was (R117)."""
        self._check_here()
        await self._link.runtime.offload(self._engine.resume, consumer_id)

    async def cancel(self) -> None:
        """End it for all; it cannot be resumed. Who is not done loses what came.

        Nobody can accept it any more: its reference is taken out of the queue, unless that is one
        of another queue manager, where it stays until `request_timeout` is over. Raises
        `ConnectionLost` if that cannot be done now; it is cancelled all the same.
        """
        self._check_here()
        runtime, engine = self._link.runtime, self._engine
        if self.status.state.final:
            return
        try:
            await runtime.offload(engine.cancel)
        finally:
            await runtime.arrives(engine.board.ending())

    async def cancel_consumer(self, consumer_id: str) -> None:
        """End it for one consumer; the others go on."""
        self._check_here()
        if not consumer_id or consumer_id not in {each.consumer_id for each in self.consumers}:
            raise no_consumer(self.transfer_id, consumer_id)
        await self._do(Cancel(consumer_id))

    async def close(self) -> None:
        """Stop it here, and keep what is needed to resume it."""
        if is_here(self._engine.process):
            await self._link.runtime.offload(self._engine.stop)

    async def linger(self, seconds: float) -> None:
        """Stay for so long, once it ended undone, for who has taken it and has to be told so."""
        self._check_here()
        if self.status.state in {TransferState.CANCELLED, TransferState.FAILED}:
            await self._link.runtime.offload(self._engine.ended_within, seconds)

    @property
    def at_rest(self) -> bool:
        """Whether it is over and nothing of it runs here any more."""
        return self.status.state.final and not self._engine.running

    def _check_here(self) -> None:
        _check_runs_here(self._engine.process, self.transfer_id)

    async def _do(self, event: Suspend | Cancel) -> None:
        self._check_here()
        engine = self._engine
        await self._link.runtime.arrives(engine.ask(engine.do(event)))


@public(made_by="Manager.running_transfer")
class RunningTransfer:
    """A transfer that a program of this user runs, be it this one or another."""

    def __init__(self, runtime: Runtime, folder: Path, name: str, status: TransferStatus) -> None:
        """Take where it is kept, and how it stood a moment ago."""
        self._runtime = runtime
        self._path = control_path(folder, name, status.direction)
        self.status = status

    def __repr__(self) -> str:
        return f"<RunningTransfer {self.status.transfer_id} {self.status.direction}>"

    async def suspend(self, consumer_id: str = "") -> None:
        """Have it stop until either end resumes: for one consumer of an offer, or for all.

        These three raise `Misuse` if no program runs it any more, and what is in the way there.
        """
        await self._order("suspend", consumer_id)

    async def resume(self, consumer_id: str = "") -> None:
        """Have it go on; an offered file is read again, and raises `TransferSourceChanged`."""
        await self._order("resume", consumer_id)

    async def cancel(self, consumer_id: str = "") -> None:
        """Have it end, for one consumer or for all; nothing of it is kept."""
        await self._order("cancel", consumer_id)

    async def _order(self, act: Act, consumer_id: str) -> None:
        await self._runtime.offload(give_order, self._path, Order(act, consumer_id))


@public(made_by="Manager.accept_file")
class Incoming:
    """A file that was accepted: what is known of it, and how to get it."""

    def __init__(
        self,
        link: Link,
        kept: KeptIncoming,
        state: StateFile,
        *,
        silence_s: float,
        direct: bool | None,
    ) -> None:
        """Take what is kept of it; nothing is asked of its producer yet."""
        self._direct = direct
        self._process = this_process()
        self._link = link
        self._kept = kept
        self._state = state
        self._silence_s = silence_s
        self._idle = status_of_incoming(kept, fragments_there(kept))
        self._engine: Accepting | None = None
        self._over = False
        self.done_with = False
        """Whether it was saved, as far as that came, cancelled or closed."""

    def __repr__(self) -> str:
        return f"<Incoming {self.transfer_id} {self.label!r} {self.status.state}>"

    @property
    def _reference(self) -> Reference:
        return self._kept.reference

    @property
    def transfer_id(self) -> str:
        """Its id, by which it can be resumed."""
        return self._reference.transfer

    @property
    def label(self) -> str:
        """The name of the file at its producer."""
        return self._reference.label

    @property
    def file_name(self) -> str:
        """The label as the name of a file: no path, nothing that cannot be printed."""
        name = "".join(each for each in Path(self.label).name if each.isprintable())
        return name if name.strip(". ") else self.transfer_id

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._reference.size

    @property
    def digest(self) -> bytes:
        """Of the file, 32 bytes: what will be here is compared with it."""
        return self._reference.fingerprint.digest

    @property
    def digest_kind(self) -> str:
        """Which digest it is: "sha256" or "blake3"."""
        return self._reference.fingerprint.kind

    @property
    def path(self) -> Path | None:
        """Where it is being saved, if that was said before."""
        return Path(self._kept.path) if self._kept.path else None

    @property
    def status(self) -> TransferStatus:
        """How it stands."""
        return self._idle if self._engine is None else self._engine.board.status

    def __aiter__(self) -> AsyncIterator[TransferStatus]:
        """Give each change, and the end; begins with `save_to`."""
        return self.statuses()

    def statuses(self) -> AsyncGenerator[TransferStatus, None]:
        """What iteration gives."""
        self._check_here()
        if self._engine is None:
            raise Misuse(f"file transfer {self.transfer_id} has not begun: call save_to()")
        return news(self._link.runtime, self._engine.board)

    async def save_to(
        self, path: str | Path | None = None, progress: Progress | None = None
    ) -> Path:
        """Get the file; it is there whole, checked and durable, or not at all.

        It grows as `<path>.partial`; without a path where it was being saved before. `progress`
        hears bytes done and bytes in all. Raises `TransferTimeout` if the producer falls silent
        (call it again to go on), `TransferCancelled`, `TransferRefused`, `TransferSourceChanged`,
        `TargetUnwritable`.
        """
        target = self._target(path)
        engine = await self._started(target)
        try:
            async for status in news(self._link.runtime, engine.board):
                if progress is not None:
                    progress(status.bytes_done, status.bytes_total)
            await self._link.runtime.offload(engine.stop)
        finally:
            self.done_with = True
        if engine.board.error is not None:
            self._over = engine.core.state in (TransferState.CANCELLED, TransferState.FAILED)
            raise engine.board.error
        if engine.core.state is not TransferState.DONE:
            raise TransferTimeout(
                f"file transfer {self.transfer_id} was suspended here; the received data is kept,"
                " so resume it",
                transfer_id=self.transfer_id,
            )
        self._over = True
        return target

    async def begin(self) -> None:
        """Begin without waiting for the end, where it is known where the file goes."""
        await self._started(Path(self._kept.path))

    async def suspend(self) -> None:
        """Stop for now; `save_to` goes on when either end resumes. What is there is kept."""
        self._check_here()
        if self._engine is not None:
            engine = self._engine
            await self._link.runtime.arrives(engine.ask(engine.do(Suspend())))

    async def resume(self) -> None:
        """Go on."""
        self._check_here()
        if self._engine is not None:
            engine = self._engine
            await self._link.runtime.arrives(engine.ask(engine.do(Resume())))

    async def cancel(self) -> None:
        """Give it up: what came is removed, its producer is told, and it cannot be resumed."""
        self._check_here()
        runtime = self._link.runtime
        self.done_with = True
        if self._over:
            return
        if self._engine is None or not self._engine.running:
            try:
                await self._started(Path(self._kept.path) if self._kept.path else None)
            except TargetUnwritable:
                # What came cannot be reached any more; its producer is told all the same.
                await self._started(None)
        engine = self._engine
        assert engine is not None
        await runtime.arrives(engine.ask(engine.do(Cancel())))
        await runtime.arrives(engine.board.ending())
        self._over = True

    async def close(self) -> None:
        """Stop it here, and keep what is needed to resume it."""
        if not is_here(self._process):
            return
        self.done_with = True
        if self._engine is not None:
            await self._link.runtime.offload(self._engine.stop)
        elif not self._over:
            self._state.release()

    @property
    def at_rest(self) -> bool:
        """Whether it is over and nothing of it runs here any more."""
        running = self._engine is not None and self._engine.running
        return self.status.state.final and not running

    def _target(self, path: str | Path | None) -> Path:
        if path is None and not self._kept.path:
            raise Misuse("the target is not known; call save_to(path)")
        target = Path(self._kept.path if path is None else path).absolute()
        return target / self.file_name if target.is_dir() else target

    def _check_here(self) -> None:
        _check_runs_here(self._process, self.transfer_id)

    async def _started(self, target: Path | None) -> Accepting:
        self._check_here()
        if self._over:
            raise TransferCancelled(
                f"file transfer {self.transfer_id} is over; accept another file",
                transfer_id=self.transfer_id,
            )
        if self._engine is not None and self._engine.running:
            raise Misuse(f"file transfer {self.transfer_id} is already being saved; wait for it")
        return await self._link.runtime.offload(self._start, target)

    def _start(self, target: Path | None) -> Accepting:
        if self._engine is not None:
            self._state = StateFile(self._state.folder, self._kept.key, "in")
        try:
            engine = Accepting(
                self._link.dialer,
                self._kept,
                state=self._state,
                target=target,
                silence_s=self._silence_s,
                direct=self._direct,
            )
        except BaseException:
            if self._engine is not None:
                # It was locked for this life only; the next one locks it again.
                self._state.release()
            raise
        self._engine = engine
        engine.start()
        return engine


def _check_runs_here(process: Process, transfer_id: str) -> None:
    check_process(
        process,
        f"file transfer {transfer_id}, as it runs,",
        "steer it with running_transfer() of a queue manager, or begin another one here",
    )
