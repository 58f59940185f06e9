"""A transaction: it gathers sends and transmits them in runs, one frame each.

The number comes from the lease, so beginning one costs nothing; the queue manager learns of it
with its first operation. Sends inside it have no answer. If the queue manager refuses one, the
transaction is doomed: the refusal is raised by the next operation or by the commit, and nothing of
it happens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Self

from dray.client.awaited.runs import SendRun
from dray.client.calls.messages import Record
from dray.client.calls.public_calls import public
from dray.client.connections.connection import Connection
from dray.client.connections.link import Link
from dray.client.connections.session import Pending, same_error
from dray.errors import (
    ConnectionLost,
    DrayError,
    InDoubt,
    ProtocolError,
    QueueNotFound,
    StorePoisoned,
    TransactionAborted,
    TransactionSequence,
    WrongProcess,
)
from dray.forks import check_process, is_here, this_process
from dray.model.classes import TransactionStatus
from dray.model.ids import ManagerId, TransactionId, join_id
from dray.model.limits import KIB
from dray.model.message import Buffer
from dray.wire.batch_frames import BatchIs, StageForBatch
from dray.wire.file_frames import SendFile
from dray.wire.frames import Done, encode_frame
from dray.wire.head import Head
from dray.wire.message_frames import Abort, Commit, Prepare, SettlePrepared

_GATHER_BYTES_MAX = 256 * KIB
"""A longer record goes out at once, from the memory in which it is."""
_INNER = frozenset(
    {
        "begin_commit",
        "broken_off",
        "connection",
        "doom",
        "end_commit",
        "join",
        "leave",
        "let_go",
        "say",
        "send",
        "send_large",
        "send_lent",
        "stage",
        "undivided",
    }
)
"""Methods that queues call in a transaction; programs do not need them."""


@public(made_by="Manager.transaction", inner=_INNER)
class Transaction:
    """A transaction. `async with` commits it on normal exit and aborts it on an exception."""

    def __init__(self, link: Link, connection: Connection, number: int) -> None:
        """Take a number; the transaction is bound to the connection."""
        self.link = link
        self._connection = connection
        self._process = this_process()
        self._number = number
        self.id = TransactionId(join_id(ManagerId(connection.manager_id), number))
        self._status = TransactionStatus.PENDING
        self._lock = link.runtime.lock()
        self._run: SendRun | None = None
        self._sends = 0
        self._joined = False
        self._request_id = 0
        self._doom: DrayError | None = None
        self._asked: tuple[Head, Pending] | None = None
        self._over = False
        link.note_begun(self.id, self)

    @classmethod
    async def begin(cls, link: Link) -> Self:
        """Begin one on the link's current connection."""
        connection = await link.connection()
        return cls(link, connection, await connection.numbers())

    def __repr__(self) -> str:
        return f"<Transaction {self.id} {self.status}>"

    @property
    def awaited(self) -> Transaction:
        """The transaction itself."""
        return self

    @property
    def status(self) -> TransactionStatus:
        """PENDING, PREPARED, COMMITTED, ABORTED or IN_DOUBT; UNKNOWN if that is forgotten."""
        return self._status

    @property
    def under_way(self) -> bool:
        """Whether calls in this program can still decide its outcome."""
        waits = self._status in (TransactionStatus.PENDING, TransactionStatus.IN_DOUBT)
        lost = self._connection.lost
        # A child may not use it any more, but its parent still can.
        return waits and not self._over and (lost is None or isinstance(lost, WrongProcess))

    @property
    def is_here(self) -> bool:
        """Whether this process began it, and not the process from which this was forked."""
        return is_here(self._process)

    async def commit(self) -> None:
        """Commit: all operations take effect, durably, or the call raises and none does.

        Raises `InDoubt` if the answer was lost (S2-3): `Manager.outcome(id)` settles it. A prepared
        transaction whose answer was lost stays prepared; commit it again.
        """
        async with self._alone():
            if await self._settled(commit=True):
                return
            self._check_pending()
            if not self._sends and self._run is None and not self._joined and self._doom is None:
                self._status = TransactionStatus.COMMITTED
                return
            await self._conclude(Commit, TransactionStatus.COMMITTED)

    async def prepare(self) -> None:
        """First of two phases: then the transaction survives every crash until it is settled.

        It takes no more operations. `Manager.commit_prepared` and `abort_prepared` can also settle
        it, by its id, from anywhere. Raises as `commit` does; after `InDoubt` it is prepared, or
        not.
        """
        async with self._alone():
            self._check_pending()
            await self._conclude(Prepare, TransactionStatus.PREPARED)

    async def stage(self, query: str, batch: int) -> None:
        """First phase for the commit of a batch; then only `CommitBatch` commits it.

        Nothing of it is kept if the batch is committed already. Raises as `prepare` does.
        """

        def staged(number: int, sends: int) -> StageForBatch:
            return StageForBatch(number, sends, query, batch)

        async with self._alone():
            self._check_pending()
            await self._conclude(staged, TransactionStatus.PREPARED, BatchIs)

    async def abort(self) -> None:
        """Roll back: nothing was sent, and received messages are back in their places (R2)."""
        async with self._alone():
            if await self._settled(commit=False):
                return
            self._check_pending()
            self._run = None
            self._status = TransactionStatus.ABORTED
            try:
                if (self._sends or self._joined) and self._connection.lost is None:
                    await self._connection.ask(Abort(self._number), Done)
            except ConnectionLost:
                # The queue manager aborts what belonged to a lost connection.
                return
            finally:
                self._finish()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._status is not TransactionStatus.PENDING:
            return
        if kind is None:
            await self.commit()
        elif self.is_here:
            # In a child it goes on in the parent, and what is raised here is not hidden.
            await self.abort()

    async def join(self) -> tuple[Connection, int]:
        """Take part with another operation than a send; its connection and number.

        Gathered sends go out first. Raises the error that doomed the transaction.
        """
        async with self._alone():
            self._check_usable()
            await self._flush()
            self._joined = True
            return self._connection, self._number

    def connection(self) -> Connection:
        """Its connection, for resolving queues and taking numbers; raises if it is lost."""
        self._check_here()
        self._check_usable()
        return self._connection

    async def send(self, queue: int, *records: Record, guarded: bool) -> None:
        """Gather records for a queue; raises what has doomed the transaction meanwhile."""
        async with self._alone():
            self._check_usable()
            gathered = 0
            while gathered < len(records):
                run = self._run
                if run is None or not run.takes(queue, records[gathered].size, guarded=guarded):
                    await self._flush()
                    self._check_usable()
                    run = self._run = SendRun(queue, guarded=guarded)
                gathered = run.add(records, gathered)
                if run.is_full:
                    await self._flush()

    async def send_large(self, queue: int, record: Record) -> None:
        """Send part of a large message; its body may change as soon as this returns."""
        if record.size < _GATHER_BYTES_MAX:
            await self.send(queue, record._replace(body=bytes(record.body)), guarded=False)
            return
        async with self._alone():
            self._check_usable()
            await self._flush()
            self._run = SendRun(queue, guarded=False)
            self._run.add([record])
            await self._flush()
            self._check_usable()

    async def send_lent(self, queue: int, record: Record, file: int, offset: int) -> Pending:
        """Send part of a large message whose body the queue manager reads from a file.

        The body lies at `offset` of what is open as `file`. Wait for the answer; then it is placed.
        """
        async with self._alone():
            self._check_usable()
            await self._flush()
            head = SendFile(queue, self._number, record.size, record.crc, offset)
            pending = await self._connection.start(head, (record.head,), file=file)
            self._sends += 1
            return pending

    @contextmanager
    def undivided(self) -> Iterator[None]:
        """A block that dooms the transaction if it is interrupted: it may hold unseen messages."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self.broken_off()
            raise

    def broken_off(self) -> None:
        """A call in it was interrupted, so it can only be aborted."""
        self.doom(
            TransactionAborted(
                f"a call in transaction {self.id} was cancelled, so the transaction can only"
                " be aborted; repeat the transaction",
                transaction_id=self.id,
            )
        )

    def leave(self) -> None:
        """Abort it without waiting, when nobody holds it any more."""
        self._status = TransactionStatus.ABORTED
        if self._connection.lost is None:
            self._connection.leave(Abort(self._number))

    async def say(self, head: Head) -> None:
        """Say something in it that is answered only if it fails, behind what was sent before."""
        async with self._alone():
            self._check_usable()
            await self._flush()
            await self._connection.post([encode_frame(head, self._listening())])

    def let_go(self) -> None:
        """Leave it as it is at the queue manager; here it is over."""
        if not self.is_here:
            return
        if self._status is TransactionStatus.PENDING:
            self._status = TransactionStatus.ABORTED
        self._finish()

    def _alone(self) -> AbstractAsyncContextManager[object]:
        """Its lock, which a thread of the parent may hold for ever in a child."""
        self._check_here()
        return self._lock

    def _check_here(self) -> None:
        check_process(self._process, f"transaction {self.id}", "begin another one in this process")
        self._connection.check_caller()

    def doom(self, error: DrayError) -> None:
        """Make the transaction end with this error. The first error counts."""
        if self._doom is None:
            self._doom = error

    def _check_pending(self) -> None:
        if self._status is not TransactionStatus.PENDING:
            stands = f"already {self._status}; begin another"
            if self._status is TransactionStatus.IN_DOUBT:
                stands = "in doubt; ask Manager.outcome() for its outcome"
            raise TransactionSequence(f"transaction {self.id} is {stands}", transaction_id=self.id)

    def _check_usable(self) -> None:
        self._check_pending()
        if self._doom is not None:
            raise self._fate(self._doom)
        if self._connection.lost is not None:
            raise self._aborted()

    def _fate(self, doom: DrayError) -> DrayError:
        """The error of a doomed transaction: the refusal, or why it was aborted."""
        if isinstance(doom, QueueNotFound):
            # Its name was resolved before, and the refusal of a number has no name to tell.
            return self._aborted("a queue that it sent to has been deleted")
        return self._aborted() if isinstance(doom, ConnectionLost) else same_error(doom)

    def _aborted(self, why: str = "its connection was lost") -> TransactionAborted:
        return TransactionAborted(
            f"transaction {self.id} was aborted because {why}; repeat the transaction",
            transaction_id=self.id,
        )

    async def _flush(self) -> None:
        """Let the gathered run go out; raises `ConnectionLost`."""
        if self._run is not None:
            buffers = self._frame_of_run()
            await self._connection.post(buffers)

    def _frame_of_run(self) -> list[Buffer]:
        run, self._run = self._run, None
        if run is None:
            return []
        self._sends += 1
        head = run.head(self._number)
        return [encode_frame(head, self._listening(), run.bytes), *run.buffers]

    def _listening(self) -> int:
        """The request id of what is answered only if it fails."""
        if not self._request_id:
            self._request_id = self._connection.listen(self.doom)
        return self._request_id

    async def _settled(self, *, commit: bool) -> bool:
        """Pass the second phase if the first is passed; over whatever connection there is."""
        if self._status is not TransactionStatus.PREPARED:
            return False
        try:
            await self.link.ask(SettlePrepared(self.id, commit), Done)
        except TransactionSequence:
            # Somebody settled it by its id.
            self._status = await self.link.outcome(self.id)
            raise
        self._status = TransactionStatus.COMMITTED if commit else TransactionStatus.ABORTED
        return True

    async def _conclude(
        self,
        request: Callable[[int, int], Head],
        reached: TransactionStatus,
        answer: type[Head] = Done,
    ) -> None:
        said = "commit" if reached is TransactionStatus.COMMITTED else "prepare"
        try:
            head, before = await self._last_words(request)
            with self._told_of(said):
                await self._connection.call(head, answer, before=before)
            self._status = reached
        finally:
            self._finish()

    async def _last_words(self, request: Callable[[int, int], Head]) -> tuple[Head, list[Buffer]]:
        """The request that ends it, and the frames ahead of that; raises what has doomed it."""
        self._connection.glance()
        # A transaction that is known to be lost is not in doubt: it is aborted.
        if self._doom is not None or self._connection.lost is not None:
            await self._give_up()
        # Until the answer is here, whatever interrupts us leaves it open.
        self._status = TransactionStatus.IN_DOUBT
        before = self._frame_of_run()
        return request(self._number, self._sends), before

    @contextmanager
    def _told_of(self, said: str) -> Iterator[None]:
        """A block that waits for the answer to its end."""
        try:
            yield
        except (ConnectionLost, ProtocolError, StorePoisoned) as error:
            raise InDoubt(
                f"the answer to the {said} of {self.id} was lost ({error}); ask"
                " Manager.outcome() for its outcome after reconnecting",
                transaction_id=self.id,
            ) from error
        except DrayError as error:
            self._status = TransactionStatus.ABORTED
            doom = self._doom or error
            if doom.code == error.code and not isinstance(error, QueueNotFound):
                raise
            raise self._fate(doom) from error

    async def begin_commit(self) -> None:
        """Ask for its commit with the next request, if not by `end_commit`; raises as `commit`."""
        async with self._alone():
            self._check_pending()
            head, before = await self._last_words(Commit)
            with self._told_of("commit"):
                self._asked = head, self._connection.start_later(head, before)

    async def end_commit(self) -> None:
        """Wait until it has committed; raises as `commit` does."""
        async with self._alone():
            assert self._asked is not None, "begin_commit came before"
            head, pending = self._asked
            try:
                with self._told_of("commit"):
                    await self._connection.say_left()
                    await self._connection.answered(pending, head, Done)
                self._status = TransactionStatus.COMMITTED
            finally:
                self._finish()

    async def _give_up(self) -> None:
        """Abort a doomed transaction instead of committing it, and raise what doomed it."""
        connection, self._run = self._connection, None
        self._status = TransactionStatus.ABORTED
        if connection.lost is not None:
            raise self._fate(self._doom) if self._doom is not None else self._aborted()
        assert self._doom is not None
        try:
            await connection.ask(Abort(self._number), Done)
        finally:
            error = self._fate(self._doom)
        raise error

    def _finish(self) -> None:
        self._over = True
        self._run = None
        if isinstance(self._doom, QueueNotFound):
            self._connection.forget_queues()
        if self._request_id:
            self._connection.listen_no_more(self._request_id)
