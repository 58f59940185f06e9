"""Large messages as programs send and receive them: any size, constant memory, exactly once.

Sending: read a piece, hash it in a worker, take its CRC32C, hand it to the kernel with its
record's head in front; the next piece is read into another buffer meanwhile. Everything is in one
transaction: the caller's, or one of its own that is aborted when anything fails, so that nothing
becomes visible.
"""

from __future__ import annotations

from copy import copy
from functools import partial
from pathlib import Path
from typing import Unpack

from dray.client.awaited.joining import InTransaction, connection_in, transaction_of
from dray.client.awaited.large_message import LargeMessage
from dray.client.awaited.large_sending import Fragmentation, LargeSend, send_whole
from dray.client.awaited.large_takes import LargeTakes, TakenTogether
from dray.client.awaited.listing import uploads_of
from dray.client.awaited.opening import Opening
from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.client.awaited.unreadable import Unreadable
from dray.client.awaited.upload import ResumableSend
from dray.client.calls.messages import (
    SendProperties,
    addressed,
    check_sendable,
    spells_out_properties,
)
from dray.client.calls.public_calls import public
from dray.client.calls.tracing import traces_receive, traces_send
from dray.client.connections.connection import Connection
from dray.client.connections.link import QueueHandle
from dray.client.files.progress import Progress
from dray.client.files.sources import source_of
from dray.client.files.steps import reached
from dray.client.files.upload_state import UnfinishedUpload
from dray.client.formatters import Encoder
from dray.errors import (
    ReceiveTimeout,
    TransactionUsage,
)
from dray.large.split import (
    LargeMessageParameters,
    check_fragment_size,
)
from dray.model.files import FileProperties
from dray.model.ids import MessageId
from dray.model.limits import FRAGMENT_BYTES_MAX
from dray.model.message import Message
from dray.model.names import parse_queue_address
from dray.wire.frames import Done
from dray.wire.large_frames import LargeReceive, UploadDrop
from dray.wire.queue_frames import OpenQueue
from dray.wire.selections import SelectByCorrelation, SelectBySequence, SelectFirst, SelectLarge

PARAMETERS = LargeMessageParameters()
FIRST = SelectFirst()


@public(inner=["beside", "status_queue_on", "take", "take_some"])
class LargeMessageQueue:
    """A transactional queue used for large messages only (S0-2, S0-3)."""

    def __init__(
        self,
        queue: Queue,
        *,
        fragment_size: int = FRAGMENT_BYTES_MAX,
        status_queue: str = "statusq",
        parameters: LargeMessageParameters = PARAMETERS,
        digest: str | None = None,
        compression: str | None = None,
    ) -> None:
        """Use `queue` for large messages; a `fragment_size` of 0 means the largest.

        `digest` is the digest of sent messages, "blake3" or "sha256", by default that of the queue,
        else "blake3"; receivers accept both. With `compression="zstd"` fragments are sent
        compressed if that makes them smaller; receivers do not notice. Raises `ValueError`.
        """
        self.fragment_size = check_fragment_size(fragment_size)
        self.handle = queue.handle
        self._status_queue = str(parse_queue_address(status_queue))
        self._parameters = parameters
        self._digest_kind = digest
        self._compression = compression

    def __repr__(self) -> str:
        return f"<LargeMessageQueue {self.handle.name}>"

    @spells_out_properties
    @traces_send
    async def send(
        self,
        body: object,
        *,
        transaction: InTransaction | None = None,
        formatter: Encoder | None = None,
        progress: Progress | None = None,
        resume: str | Path | None = None,
        digest: str | None = None,
        file: FileProperties | None = None,
        **properties: Unpack[SendProperties],
    ) -> MessageId:
        """Send a large message; return its sequence id, the message id of its header.

        `body` is bytes-like, a `pathlib.Path`, an open binary file or an iterable of bytes; other
        objects go through `formatter`. The awaited API also takes an asynchronous iterable, and
        reads the others in a thread. `digest` is "blake3" or "sha256". `file` is what the receiver
        finds in `LargeMessage.file`. Raises `SourceUnreadable`, `SourceChanged`,
        `NotTransactional`, and `Misuse` for wrong properties. A transaction of the caller can only
        be aborted after an error, unless nothing of the message was sent yet.

        `resume` names a state file, or is the sequence id of an unfinished upload. The same call
        resumes a send that ended before its commit, however it ended: it reads again and compares
        what the queue manager has, does not send it again, and commits the message once, even if
        the answer to the commit was lost. It has a transaction of its own. Raises `SourceChanged`,
        also if the body is another one than before; `InDoubt` if the queue manager no longer knows
        whether the upload was committed; `TargetUnwritable` for the state file.
        """
        kind = digest or self._digest_kind or ""
        cut = Fragmentation(self._parameters, self.fragment_size, kind, self._compression)
        message = addressed(Message(**properties), self.handle.name)
        # Nobody but the receiver would look at these values of the control record.
        check_sendable(message)
        runtime = self.handle.link.runtime
        source = await runtime.offload(
            partial(source_of, body, formatter, awaited=runtime.cancellable)
        )
        asked = LargeSend(message, source, cut, progress, file)
        try:
            if resume is not None:
                if transaction is not None:
                    raise TransactionUsage(
                        "a send with `resume` has a transaction of its own; call it without"
                        " `transaction`"
                    )
                return await self._send_resumed(resume, asked)
            if transaction is not None:
                given = transaction_of(transaction)
                return await self._send_in(given, asked)
            async with await Transaction.begin(self.handle.link) as own:
                sequence_id = await self._send_in(own, asked)
            reached("send-committed")
            return sequence_id
        finally:
            source.close()

    def receive(
        self,
        timeout: float | None = None,
        transaction: InTransaction | None = None,
        *,
        repair: bool = False,
    ) -> Opening[LargeMessage]:
        """Receive the first complete large message. Use it as a context manager.

        Without `transaction` it has a transaction of its own, which commits at the end of `with`
        and aborts on an exception; without `with`, `LargeMessage.commit` or `close` ends it. Raises
        `ReceiveTimeout`, `LargeMessageHole`, `StatusQueueMissing`.

        With `repair` a hole does not reject the parts: the source is asked for the missing ones and
        other complete messages come first. The hole is raised once the source says that it has no
        copy. It has one if the message was sent with `use_dead_letter_queue`; otherwise the hole is
        raised at once, and the error says so.
        """
        return Opening(lambda: self.take(SelectFirst(), timeout, transaction, repair=repair))

    def receive_by_correlation_id(
        self,
        correlation_id: str,
        timeout: float | None = None,
        transaction: InTransaction | None = None,
        *,
        repair: bool = False,
    ) -> Opening[LargeMessage]:
        """Receive the first large message with that correlation id.

        Raises `MessageNotFound` if there is none and `timeout` is 0 or not given.
        """
        return Opening(
            lambda: self.take(
                SelectByCorrelation(correlation_id), timeout, transaction, repair=repair
            )
        )

    def peek(self, timeout: float | None = None) -> Opening[LargeMessage]:
        """Look at the first complete large message; removes nothing, not even at a hole."""
        return Opening(lambda: self._peek(timeout))

    def peek_by_id(self, sequence_id: str) -> Opening[LargeMessage]:
        """Look at the large message with that id; raises `MessageNotFound`, `LargeMessageHole`."""
        return Opening(lambda: self._peek(0.0, SelectBySequence(sequence_id)))

    def beside(self, name: str) -> LargeMessageQueue:
        """Return the same for another queue, such as a sub-queue."""
        found = copy(self)
        found.handle = QueueHandle(self.handle.link, name)
        return found

    async def _peek(self, timeout: float | None, select: SelectLarge = FIRST) -> LargeMessage:
        connection = await self.handle.link.connection()
        try:
            return await self._takes.find(
                connection, LargeReceive(0, 0, timeout, select, peek=True)
            )
        except Unreadable as unreadable:
            raise unreadable.told("it stays in the queue") from unreadable

    async def unfinished(self) -> list[UnfinishedUpload]:
        """Unfinished uploads: sends with `resume` that are not committed, the oldest first."""
        connection = await self.handle.link.connection()
        queue = await self._takes.checked(connection)
        return await uploads_of(self.handle.link, queue)

    async def drop_unfinished(self, sequence_id: str) -> None:
        """Drop an unfinished upload and free its room; raises `MessageNotFound`."""
        connection = await self.handle.link.connection()
        await connection.ask(UploadDrop(sequence_id), Done)

    async def _send_resumed(self, resume: str | Path, asked: LargeSend) -> MessageId:
        connection = await self.handle.link.connection()
        queue = await self._checked_to_send(connection)
        upload = ResumableSend(self.handle.link, connection, queue, self.handle.name)
        return await upload.send(resume, await self._with_digest(connection, asked))

    async def _send_in(self, transaction: Transaction, asked: LargeSend) -> MessageId:
        connection = connection_in(transaction, self.handle)
        queue = await self._checked_to_send(connection)
        sending = await self._with_digest(connection, asked)
        return await send_whole(self.handle.link.runtime, transaction, queue, sending)

    async def _with_digest(self, connection: Connection, asked: LargeSend) -> LargeSend:
        """Take the queue's kind of digest, if the caller has named none."""
        if asked.cut.digest_kind:
            return asked
        kind = await self.handle.digest_kind(connection)
        return asked._replace(cut=asked.cut._replace(digest_kind=kind))

    @traces_receive
    async def take(
        self,
        select: SelectLarge,
        timeout: float | None,
        transaction: InTransaction | None,
        *,
        repair: bool,
    ) -> LargeMessage:
        """Receive the first large message that fits; raises as `receive` does."""
        own = await Transaction.begin(self.handle.link) if transaction is None else None
        used = own if transaction is None else transaction_of(transaction)
        assert used is not None
        try:
            with used.undivided():
                (found,) = await self._takes.take(
                    LargeReceive(0, 0, timeout, select, repair=repair), [used]
                )
        except BaseException:
            if own is not None:
                await own.abort()
            raise
        assert found is not None
        found.bind(used, owned=own is not None, repair=repair)
        reached("message-found")
        return found

    @traces_receive
    async def take_some(self, timeout: float | None, most: int) -> TakenTogether:
        """Receive the first large message, and up to `most` in all if they are short.

        Each is in a transaction of its own. Raises as `receive` does.
        """
        connection = await self.handle.link.connection()
        number = await connection.numbers(most)
        own = [Transaction(self.handle.link, connection, number + each) for each in range(most)]
        try:
            found = await self._takes.take(LargeReceive(0, 0, timeout, count=most), own)
        except ReceiveTimeout:
            await own[0].abort()
            raise
        except BaseException:
            for each in own[1:]:
                each.leave()
            await own[0].abort()
            raise
        taken = TakenTogether([], [], len(found))
        for each, message in zip(own, found, strict=False):
            await each.join()
            if message is None:
                await each.abort()
                continue
            message.bind(each, owned=False)
            taken.messages.append(message)
            taken.transactions.append(each)
        for each in own[len(found) :]:
            each.let_go()
        reached("message-found")
        return taken

    async def status_queue_on(self, connection: Connection) -> int:
        """Give the number of the status queue (S0-4); raises `StatusQueueMissing`."""
        return await self._takes.status_queue_on(connection)

    @property
    def _takes(self) -> LargeTakes:
        return LargeTakes(self.handle, self._status_queue)

    async def _checked_to_send(self, connection: Connection) -> int:
        """Give the queue's number, and have the status queue made that the receiver will need.

        A sender needs none, so it neither waits for the answer nor minds what it says. The
        receivers of another manager's queue have theirs there.
        """
        number = await self._takes.checked(connection)
        if not parse_queue_address(self.handle.name).remote:
            connection.leave_once(OpenQueue(self._status_queue, for_status=True))
        return number
