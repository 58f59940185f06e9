"""A queue manager as programs hold it: the door to its queues and transactions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from dray.client.awaited.backup import back_up
from dray.client.awaited.opening import Opening
from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.client.awaited.transfers import Asked, Manner, Transfers
from dray.client.calls.public_calls import public
from dray.client.connections.link import Link
from dray.client.transfer.direct import AUTOMATIC
from dray.large.digests import check_digest_kind
from dray.model.classes import TransactionStatus
from dray.model.ids import TransactionId
from dray.model.limits import (
    MIB,
    TRANSFER_REQUEST_TIMEOUT_S,
    TRANSFER_SILENCE_S,
    TRANSFER_WINDOW,
)
from dray.model.names import check_new_queue_name, parse_queue_address
from dray.model.queue import ManagerInfo, PeerInfo, QueueInfo, QueueOptions
from dray.model.sizes import optional_size
from dray.wire.frames import (
    AcceptPeer,
    CreateQueue,
    DeleteQueue,
    Describe,
    Done,
    ForgetPeer,
    ListPeers,
    ListPrepared,
    ListQueues,
    ManagerState,
    Outcome,
    OutcomeIs,
    PauseQueue,
    PeerList,
    PreparedList,
    QueueList,
    QueueState,
    ResolveOutgoing,
    SetQuota,
    SettlePrepared,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import EllipsisType, TracebackType
    from typing import BinaryIO

    from dray.client.awaited.transfer import Incoming, Offer, RunningTransfer
    from dray.client.transfer.board import Told
    from dray.model.backup import BackupReport
    from dray.model.transfer import TransferStatus


@public(made_by="dray.aio.connect or dray.aio.open")
class Manager:
    """A connected queue manager. Any number of threads or tasks may share it.

    When the connection breaks, what is under way raises `ConnectionLost` (a commit: `InDoubt`), the
    transactions of that connection are aborted, and the next call connects anew.
    """

    def __init__(self, link: Link, stop: Callable[[], None] | None = None) -> None:
        """Take the way there; `stop` is called after closing, by the embedded door."""
        self._link = link
        self._stop = stop
        self._transfers = Transfers(link)

    @classmethod
    async def connected(cls, link: Link, stop: Callable[[], None] | None = None) -> Self:
        """Connect; raises `ConnectionLost`."""
        await link.connection()
        return cls(link, stop)

    def __repr__(self) -> str:
        return f"<Manager at {self._link}>"

    async def create_queue(
        self,
        name: str,
        *,
        transactional: bool = True,
        quota: int | str | None = None,
        journal: bool = False,
        journal_quota: int | str | None = None,
        label: str = "",
        digest: str | None = None,
        exist_ok: bool = False,
    ) -> Queue:
        """Create a queue; `transactional` never changes later.

        `digest` is the one of large messages and files whose sender names none, "blake3" or
        "sha256"; by default "blake3". Raises `QueueExists`, `InvalidQueueName` or `ValueError`.
        """
        options = QueueOptions(
            transactional,
            optional_size(quota),
            journal,
            optional_size(journal_quota),
            label,
            None if digest is None else check_digest_kind(digest),
        )
        request = CreateQueue(check_new_queue_name(name), options, exist_ok)
        return Queue(self._link, (await self._link.ask(request, QueueState)).info.name)

    def queue(self, name: str, *, raw: bool = False) -> Queue:
        """Give a handle; a missing queue raises `QueueNotFound` at first use.

        `name` may be a sub-queue, `orders;retry`, made when it is needed. `raw` leaves out the
        guard of queues in large use: the handle sees and takes single parts.
        """
        return Queue(self._link, str(parse_queue_address(name)), guarded=not raw)

    async def queues(self) -> list[QueueInfo]:
        """All queues, with system and outgoing ones."""
        return (await self._link.ask(ListQueues(), QueueList)).queues

    async def delete_queue(self, name: str) -> None:
        """Delete a queue with all that is in it; raises `QueueNotFound`."""
        connection = await self._link.connection()
        await connection.ask(DeleteQueue(str(parse_queue_address(name))), Done)
        connection.forget_queues()

    def transaction(self) -> Opening[Transaction]:
        """Begin a transaction; `with` commits it on normal exit and aborts it on an exception."""
        return Opening(lambda: Transaction.begin(self._link))

    async def outcome(self, transaction_id: str) -> TransactionStatus:
        """Tell how a transaction ended: this settles an in-doubt commit (S2-3).

        One that the queue manager has heard nothing of is called ABORTED, and never happens after
        that; but not one that is under way in this program.
        """
        if self._link.is_under_way(transaction_id):
            return TransactionStatus.PENDING
        return TransactionStatus((await self._link.ask(Outcome(transaction_id), OutcomeIs)).status)

    async def prepared(self) -> list[TransactionId]:
        """Transactions that are prepared and not settled, whoever has prepared them."""
        found = await self._link.ask(ListPrepared(), PreparedList)
        return [TransactionId(each) for each in found.transaction_ids]

    async def commit_prepared(self, transaction_id: str) -> None:
        """Commit a prepared transaction; doing it again changes nothing.

        Raises `TransactionSequence` if it was aborted, or never prepared.
        """
        await self._link.ask(SettlePrepared(transaction_id, commit=True), Done)

    async def abort_prepared(self, transaction_id: str) -> None:
        """Abort a prepared transaction; see `commit_prepared`."""
        await self._link.ask(SettlePrepared(transaction_id, commit=False), Done)

    async def info(self) -> ManagerInfo:
        """The queue manager as it stands."""
        return (await self._link.ask(Describe(), ManagerState)).info

    async def pause(self, outgoing: str) -> None:
        """Stop the delivery of an outgoing queue, given by its name or remote address."""
        await self._link.ask(PauseQueue(str(parse_queue_address(outgoing)), paused=True), Done)

    async def resume(self, outgoing: str) -> None:
        """Let the delivery of an outgoing queue go on."""
        await self._link.ask(PauseQueue(str(parse_queue_address(outgoing)), paused=False), Done)

    async def peers(self) -> list[PeerInfo]:
        """The queue managers that are known at the addresses to which this one delivers."""
        return (await self._link.ask(ListPeers(), PeerList)).peers

    async def accept_peer(self, address: str, manager_id: str | None = None) -> None:
        """Deliver to another queue manager at an address than the one that is known there.

        Without `manager_id`, to the one that answered there last. What waits for the earlier one is
        delivered to this one. Raises `Misuse` if no other one has answered.
        """
        await self._link.ask(AcceptPeer(address, manager_id or ""), Done)

    async def forget_peer(self, address: str) -> None:
        """Deliver to whichever queue manager answers at an address next."""
        await self._link.ask(ForgetPeer(address), Done)

    async def accept_outgoing(self, outgoing: str) -> int:
        """Deliver all that a diverged outgoing queue holds; gives the number of messages.

        The destination took messages of this queue from another copy of this queue manager's data
        directory, so some of these may arrive a second time. Raises `Misuse` if the queue's
        delivery has not diverged.
        """
        name = str(parse_queue_address(outgoing))
        return (await self._link.ask(ResolveOutgoing(name, discard=False), Done)).count

    async def discard_outgoing(self, outgoing: str) -> int:
        """Make all that a diverged outgoing queue holds dead letters; gives their number.

        See `accept_outgoing`. What is sent from now on is delivered.
        """
        name = str(parse_queue_address(outgoing))
        return (await self._link.ask(ResolveOutgoing(name, discard=True), Done)).count

    async def set_quota(
        self,
        queue: str | None = None,
        quota: int | str | EllipsisType | None = ...,
        *,
        journal_quota: int | str | EllipsisType | None = ...,
    ) -> None:
        """Set the quotas of a queue or, without one, of the queue manager; None is no limit.

        What is left out stays as it is. So does what is stored, also above a new limit; only what
        arrives is refused (R65).
        """
        name = "" if queue is None else str(parse_queue_address(queue))
        await self._link.ask(SetQuota(name, _limit(quota), _limit(journal_quota)), Done)

    async def backup(
        self,
        target: str | Path | BinaryIO,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> BackupReport:
        """Write everything as it stands now to a file, or to something open for writing bytes.

        Traffic goes on. A file appears when it is whole, in place of an older one. `progress` hears
        bytes done and bytes in all. Raises `StoreCorrupt` if a message's bytes are damaged.
        """
        connection = await self._link.connection()
        return await back_up(connection, self._link.runtime, target, progress or _unheard)

    async def offer_file(
        self,
        path: str | Path,
        to: str,
        *,
        fragment_size: int = MIB,
        window_size: int = TRANSFER_WINDOW,
        request_timeout: float | None = TRANSFER_REQUEST_TIMEOUT_S,
        consumers: str = "one",
        listen: str | None = AUTOMATIC,
        response_timeout: float = TRANSFER_SILENCE_S,
        progress: Told | None = None,
        digest: str | None = None,
    ) -> Offer:
        """Offer a file to "one" or "many" consumers at the queue `to`, and serve them.

        The file is read once, then a reference is sent; nothing else moves before a consumer asks.
        Consumers may ask for `request_timeout` seconds, or with None for as long as it is offered.
        At most `window_size` fragments are unacknowledged. An unfinished offer of the same file to
        the same queue is gone on with. `listen` is the address at which consumers may connect, by
        default the one by which the queue manager is reached; None for never. Such connections go
        through TLS if the one to the queue manager does. A consumer that is silent
        for `response_timeout` seconds is suspended. `progress` hears each change, in a thread of
        its own. `digest` says which is taken, "blake3" or "sha256"; by default the one that the
        queue was created with, else "blake3". Raises `SourceUnreadable`, `TransferSourceChanged`.
        """
        asked = Asked(
            Path(path),
            str(parse_queue_address(to)),
            fragment_size,
            window_size,
            request_timeout,
            consumers,
            None if digest is None else check_digest_kind(digest),
        )
        return await self._transfers.offer(asked, Manner(listen, response_timeout, progress))

    async def accept_file(
        self,
        source: str,
        timeout: float | None = None,
        *,
        response_timeout: float = TRANSFER_SILENCE_S,
        direct: bool | None = None,
    ) -> Incoming:
        """Take the next file that is offered at a queue; `Incoming.save_to` gets it.

        What an earlier life of the program has left unfinished from that queue comes first.
        `direct` says whether to connect to the producer where it offers that, by default unless
        the queue manager is reached through TLS and the producer does not offer that. Raises
        `ReceiveTimeout` if nothing is offered in `timeout` seconds.
        """
        manner = Manner(silence_s=response_timeout, direct=direct)
        return await self._transfers.accept(source, timeout, manner)

    async def unfinished_transfers(self) -> list[TransferStatus]:
        """File transfers through this queue manager that can be gone on with: both directions."""
        return await self._transfers.unfinished()

    async def resume_transfer(
        self,
        transfer_id: str,
        *,
        listen: str | None = AUTOMATIC,
        response_timeout: float = TRANSFER_SILENCE_S,
        direct: bool | None = None,
    ) -> Offer | Incoming:
        """Take up an unfinished transfer: an `Offer` is served again, an `Incoming` to be saved.

        `listen` is that of `offer_file`, `direct` that of `accept_file`. Raises `Misuse` if there
        is none of that id, `TransferSourceChanged`.
        """
        manner = Manner(listen, response_timeout, direct=direct)
        return await self._transfers.resume(transfer_id, manner)

    async def cancel_transfer(self, transfer_id: str, consumer_id: str = "") -> None:
        """Give up an unfinished transfer, whether a program of this user runs it or none does.

        An offer, if both ends of it are here. With `consumer_id` only that consumer of an offer
        that runs. Raises `Misuse` if there is none of that id.
        """
        await self._transfers.cancel(transfer_id, consumer_id)

    async def linger(self, seconds: float) -> None:
        """Stay, at most for so long, for who has taken an offer that ended undone in this handle.

        It was cancelled, or its file has changed. Who has its reference and has not asked for the
        file yet is told so when he does, by nobody any more once this handle is closed. Returns at
        once if there can be no such one.
        """
        await self._transfers.linger(seconds)

    async def running_transfer(self, transfer_id: str) -> RunningTransfer | None:
        """A transfer that another program of this user runs, to suspend, resume or cancel it there.

        An offer, if both ends of it are run here; None if nobody runs one of that id.
        """
        return await self._transfers.running(transfer_id)

    async def close(self) -> None:
        """Close the connection; open transactions are aborted. Closing again does nothing.

        File transfers stop, and what is unfinished can be resumed.
        """
        await self._transfers.close()
        await self._link.close()
        stop, self._stop = self._stop, None
        if stop is not None:
            await self._link.runtime.offload(stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


def _unheard(_done: int, _total: int) -> None:
    """Nobody wants to know."""


def _limit(quota: int | str | EllipsisType | None) -> int | None:
    return SetQuota.KEPT if isinstance(quota, type(...)) else optional_size(quota)
