"""File transfers: an offer at one end, an incoming file at the other.

Each transfer has a thread of its own (`client.transfer`); these classes start, steer and watch it.
A transfer does not end with the patience of its caller: an offer continues until it is done or
cancelled, or until its manager's handle is closed, and an unfinished one can be resumed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path

from dray.client.calls.public_calls import public
from dray.client.connections.link import Link
from dray.client.connections.runtime import Runtime
from dray.client.files.progress import INTERVAL_S, Progress
from dray.client.transfer.accepting import Accepting, fragments_there
from dray.client.transfer.board import Board
from dray.client.transfer.control import Act, Order, give_order
from dray.client.transfer.offer_status import no_consumer
from dray.client.transfer.offering import Offering
from dray.client.transfer.reference import Reference
from dray.client.transfer.state import (
    KeptIncoming,
    StateFile,
    check_noted,
    control_path,
    status_of_incoming,
)
from dray.errors import (
    Misuse,
    TargetUnwritable,
    TransferCancelled,
    TransferTimeout,
)
from dray.forks import Process, check_process, is_here, this_process
from dray.model.transfer import TransferState, TransferStatus
from dray.transfer.events import Cancel, Resume, Suspend


async def news(runtime: Runtime, board: Board) -> AsyncGenerator[TransferStatus, None]:
    """Changes from now on, at most ten a second; the last one is the end."""
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
    """An offered file. Iterate over it for its progress, or `wait` for its end."""

    def __init__(self, link: Link, engine: Offering) -> None:
        """Wrap the running offer."""
        self._link = link
        self._engine = engine

    def __repr__(self) -> str:
        status = self.status
        return f"<Offer {status.transfer_id} {status.label!r} {status.state}>"

    @property
    def transfer_id(self) -> str:
        """Id by which the transfer can be resumed."""
        return self._engine.kept.reference.transfer

    @property
    def digest(self) -> bytes:
        """Digest of the file, 32 bytes."""
        return self._engine.kept.reference.fingerprint.digest

    @property
    def digest_kind(self) -> str:
        """Kind of the digest: "sha256" or "blake3"."""
        return self._engine.kept.reference.fingerprint.kind

    @property
    def status(self) -> TransferStatus:
        """State of the offer as a whole."""
        return self._engine.board.status

    @property
    def consumers(self) -> list[TransferStatus]:
        """State of each consumer."""
        self._check_here()
        return self._engine.board.consumers

    def __aiter__(self) -> AsyncIterator[TransferStatus]:
        """Iterate over the changes of each consumer (of the offer if it has none) and the end."""
        return self.statuses()

    def statuses(self) -> AsyncGenerator[TransferStatus, None]:
        """The same, as an iterator."""
        self._check_here()
        return news(self._link.runtime, self._engine.board)

    async def wait(self, timeout: float | None = None) -> TransferStatus:
        """Wait for the end of the offer; return its last status.

        Raises `TransferTimeout` if no consumer asked in time or after `timeout` seconds,
        `TransferCancelled`, `TransferSourceChanged`.
        """
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
        """Suspend sending, to one consumer or to all, until either end resumes."""
        await self._do(Suspend(consumer_id))

    async def resume(self, consumer_id: str = "") -> None:
        """Resume. Raises `TransferSourceChanged` if the file has changed (R117)."""
        self._check_here()
        await self._link.runtime.offload(self._engine.resume, consumer_id)

    async def cancel(self) -> None:
        """Cancel for all consumers; consumers that are not done lose what they received.

        The offer cannot be resumed or accepted any more: its reference is taken out of the queue. A
        reference in a queue of another queue manager stays there until `request_timeout` is over.
        Raises `ConnectionLost` if the reference could not be taken out; the offer is cancelled all
        the same.
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
        """Cancel for one consumer; the others continue."""
        self._check_here()
        if not consumer_id or consumer_id not in {each.consumer_id for each in self.consumers}:
            raise no_consumer(self.transfer_id, consumer_id)
        await self._do(Cancel(consumer_id))

    async def close(self) -> None:
        """Stop the offer here; it can be resumed."""
        if is_here(self._engine.process):
            await self._link.runtime.offload(self._engine.stop)

    async def linger(self, seconds: float) -> None:
        """After an undone end wait so long for consumers that took the offer, and tell them."""
        self._check_here()
        if self.status.state in {TransferState.CANCELLED, TransferState.FAILED}:
            await self._link.runtime.offload(self._engine.ended_within, seconds)

    @property
    def at_rest(self) -> bool:
        """Whether the transfer is over and nothing of it runs here any more."""
        return self.status.state.final and not self._engine.running

    def _check_here(self) -> None:
        _check_runs_here(self._engine.process, self.transfer_id)

    async def _do(self, event: Suspend | Cancel) -> None:
        self._check_here()
        engine = self._engine
        await self._link.runtime.arrives(engine.ask(event))


@public(made_by="Manager.running_transfer")
class RunningTransfer:
    """A transfer that a program of this user runs: this program or another."""

    def __init__(self, runtime: Runtime, folder: Path, name: str, status: TransferStatus) -> None:
        """Keep where it is stored, and its state a moment ago."""
        self._runtime = runtime
        self._path = control_path(folder, name, status.direction)
        self.status = status

    def __repr__(self) -> str:
        return f"<RunningTransfer {self.status.transfer_id} {self.status.direction}>"

    async def suspend(self, consumer_id: str = "") -> None:
        """Suspend it until either end resumes: for one consumer of an offer, or for all.

        `suspend`, `resume` and `cancel` raise `Misuse` if no program runs it any more, and the
        errors of that program.
        """
        await self._order("suspend", consumer_id)

    async def resume(self, consumer_id: str = "") -> None:
        """Resume it; an offered file is read again, which may raise `TransferSourceChanged`."""
        await self._order("resume", consumer_id)

    async def cancel(self, consumer_id: str = "") -> None:
        """Cancel it, for one consumer or for all; nothing of it is kept."""
        await self._order("cancel", consumer_id)

    async def _order(self, act: Act, consumer_id: str) -> None:
        await self._runtime.offload(give_order, self._path, Order(act, consumer_id))


@public(made_by="Manager.accept_file")
class Incoming:
    """An accepted file: its properties, and how to save it."""

    def __init__(
        self,
        link: Link,
        kept: KeptIncoming,
        state: StateFile,
        *,
        silence_s: float,
        direct: bool | None,
    ) -> None:
        """Keep the stored state; nothing is asked of the producer yet."""
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
        """Whether it was saved (as far as possible), cancelled or closed."""

    def __repr__(self) -> str:
        return f"<Incoming {self.transfer_id} {self.label!r} {self.status.state}>"

    @property
    def _reference(self) -> Reference:
        return self._kept.reference

    @property
    def transfer_id(self) -> str:
        """Id by which the transfer can be resumed."""
        return self._reference.transfer

    @property
    def label(self) -> str:
        """Name of the file at its producer."""
        return self._reference.label

    @property
    def file_name(self) -> str:
        """The label as a safe file name."""
        name = "".join(each for each in Path(self.label).name if each.isprintable())
        return name if name.strip(". ") else self.transfer_id

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._reference.size

    @property
    def digest(self) -> bytes:
        """Digest of the file, 32 bytes."""
        return self._reference.fingerprint.digest

    @property
    def digest_kind(self) -> str:
        """Kind of the digest: "sha256" or "blake3"."""
        return self._reference.fingerprint.kind

    @property
    def path(self) -> Path | None:
        """Path to which it is being saved; None if that is not known yet."""
        return Path(self._kept.path) if self._kept.path else None

    @property
    def status(self) -> TransferStatus:
        """State of the transfer."""
        return self._idle if self._engine is None else self._engine.board.status

    def __aiter__(self) -> AsyncIterator[TransferStatus]:
        """Iterate over the changes, and the end; begins with `save_to`."""
        return self.statuses()

    def statuses(self) -> AsyncGenerator[TransferStatus, None]:
        """The same, as an iterator."""
        self._check_here()
        if self._engine is None:
            raise Misuse(f"file transfer {self.transfer_id} has not begun: call save_to()")
        return news(self._link.runtime, self._engine.board)

    async def save_to(
        self, path: str | Path | None = None, progress: Progress | None = None
    ) -> Path:
        """Receive the file; it appears complete, verified and durable, or not at all.

        It grows as `<path>.partial`; without `path` at the path of the last call.
        `progress(bytes_done, bytes_total)` reports progress. Raises `TransferTimeout` if the
        producer falls silent (call it again to resume), `TransferCancelled`, `TransferRefused`,
        `TransferSourceChanged`, `TargetUnwritable`.
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
        """Begin without waiting for the end, if the path is known."""
        await self._started(Path(self._kept.path))

    async def suspend(self) -> None:
        """Suspend it; `save_to` continues when either end resumes. The received data is kept."""
        self._check_here()
        if self._engine is not None:
            engine = self._engine
            await self._link.runtime.arrives(engine.ask(Suspend()))

    async def resume(self) -> None:
        """Resume it."""
        self._check_here()
        if self._engine is not None:
            engine = self._engine
            await self._link.runtime.arrives(engine.ask(Resume()))

    async def cancel(self) -> None:
        """Cancel it: remove the received data and tell the producer; it cannot be resumed."""
        self._check_here()
        runtime = self._link.runtime
        self.done_with = True
        if self._over:
            return
        if self._engine is None or not self._engine.running:
            try:
                await self._started(Path(self._kept.path) if self._kept.path else None)
            except TargetUnwritable:
                # The bytes that came cannot be reached any more; the producer is told all the same.
                await self._started(None)
        engine = self._engine
        assert engine is not None
        await runtime.arrives(engine.ask(Cancel()))
        await runtime.arrives(engine.board.ending())
        self._over = True

    async def close(self) -> None:
        """Stop it here; it can be resumed."""
        if not is_here(self._process):
            return
        self.done_with = True
        if self._engine is not None:
            await self._link.runtime.offload(self._engine.stop)
        elif not self._over:
            self._state.release()

    @property
    def at_rest(self) -> bool:
        """Whether the transfer is over and nothing of it runs here any more."""
        running = self._engine is not None and self._engine.running
        return self.status.state.final and not running

    def _target(self, path: str | Path | None) -> Path:
        if path is None and not self._kept.path:
            raise Misuse("the target is not known; call save_to(path)")
        target = Path(self._kept.path if path is None else path).absolute()
        check_noted(target)
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
                # It was locked for this run only; the next one locks it again.
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
