"""The connection to a queue manager: queues, transactions, transfers and administration."""

from __future__ import annotations

import secrets
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Self

from dray.client.awaited import moving
from dray.client.awaited.deliveries import Arrival, wait_for_delivery
from dray.client.awaited.doctor import examine
from dray.client.awaited.listing import all_queues, uploads_of
from dray.client.awaited.opening import Opening
from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.client.calls.public_calls import public
from dray.client.connections.link import Link
from dray.model import limits
from dray.model.classes import TransactionStatus
from dray.model.ids import TransactionId
from dray.model.names import check_new_queue_name, parse_queue_address
from dray.model.platforms import require_linux
from dray.model.queue import ManagerInfo, PeerInfo, QueueInfo, QueueOptions
from dray.model.tokens import TOKEN_BYTES, TokenInfo, digest_of_token
from dray.model.transfer import AUTOMATIC
from dray.model.words import optional_size
from dray.wire import queue_frames, token_frames
from dray.wire.frames import Done
from dray.wire.message_frames import ListPrepared, PreparedList, SettlePrepared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import EllipsisType
    from typing import BinaryIO

    from dray.client.awaited.transfer import Incoming, Offer, RunningTransfer
    from dray.client.awaited.transfers import Transfers
    from dray.client.files.upload_state import UnfinishedUpload
    from dray.client.transfer.board import Told
    from dray.model.access_info import AccessInfo
    from dray.model.backup import BackupReport
    from dray.model.finding import DoctorFinding
    from dray.model.queued import QueuedMessage
    from dray.model.transfer import TransferStatus


@public(made_by="dray.aio.connect or dray.aio.open")
class Manager:
    """A connection to a queue manager. Any number of threads or tasks may share it.

    When the connection breaks, calls in progress raise `ConnectionLost` (a commit: `InDoubt`), the
    queue manager aborts the transactions of that connection, and the next call connects again.
    """

    def __init__(self, link: Link, stop: Callable[[], None] | None = None) -> None:
        """Use `link`; each close calls `stop`, which ends the embedded queue manager."""
        self._link = link
        self._stop = stop
        self._transfers: Transfers | None = None
        self._made: dict[type[Transfers], Transfers] = {}

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
        """Create a queue; `transactional` cannot change later.

        Quotas are bytes, None for no limit; `digest`, "blake3" (default) or "sha256", is for large
        messages and files whose sender names none. `exist_ok` accepts a queue that is as asked.
        Raises `QueueExists`, `InvalidQueueName` or `ValueError`.
        """
        options = QueueOptions(
            transactional,
            optional_size(quota),
            journal,
            optional_size(journal_quota),
            label,
            digest,
        )
        request = queue_frames.CreateQueue(check_new_queue_name(name), options, exist_ok)
        # Somebody else may have deleted the queue that we know by this name.
        (await self._link.connection()).forget_queues()
        return Queue(self._link, (await self._link.ask(request, queue_frames.QueueState)).info.name)

    def queue(self, name: str, *, raw: bool = False) -> Queue:
        """Return a handle of a queue; a missing queue raises `QueueNotFound` at first use.

        `name` may be a sub-queue, `orders;retry`, created on demand, or a queue of another manager,
        `dray://host:port/name`. A `raw` handle of a queue of large messages sees and takes single
        parts.
        """
        return Queue(self._link, str(parse_queue_address(name)), guarded=not raw)

    async def queues(self) -> list[QueueInfo]:
        """All queues, including system queues and outgoing queues."""
        return await all_queues(self._link)

    async def delete_queue(self, name: str, born: int | None = None) -> None:
        """Delete a queue with all its messages; see `Queue.purge` for `born`."""
        request = queue_frames.DeleteQueue(str(parse_queue_address(name)), born or 0)
        connection = await self._link.connection()
        await connection.ask(request, Done)
        connection.forget_queues()

    def transaction(self) -> Opening[Transaction]:
        """Begin a transaction; `with` commits it on normal exit and aborts it on an exception."""
        return Opening(lambda: Transaction.begin(self._link))

    async def outcome(self, transaction_id: str) -> TransactionStatus:
        """Return how a transaction or send ended; this settles a commit in doubt (S2-3).

        The queue manager calls an unknown transaction ABORTED and makes sure that it never commits;
        a transaction that is still open in this program stays open.
        """
        if self._link.is_under_way(transaction_id):
            return TransactionStatus.PENDING
        return await self._link.outcome(transaction_id)

    async def prepared(self) -> list[TransactionId]:
        """Ids of the transactions that are prepared and not settled, of all programs."""
        found = await self._link.ask(ListPrepared(), PreparedList)
        return [TransactionId(each) for each in found.transaction_ids]

    async def commit_prepared(self, transaction_id: str) -> None:
        """Commit a prepared transaction, once or again; else raises `TransactionSequence`."""
        await self._link.ask(SettlePrepared(transaction_id, commit=True), Done)

    async def abort_prepared(self, transaction_id: str) -> None:
        """Abort a prepared transaction; repeating it changes nothing. See `commit_prepared`."""
        await self._link.ask(SettlePrepared(transaction_id, commit=False), Done)

    async def wait_for_delivery(
        self,
        ids: Iterable[str],
        administration_queue: str,
        *,
        until: Arrival = "accepted",
        timeout: float | None = None,
    ) -> None:
        """Wait until messages, sent with `acknowledge`, are "accepted" or "received".

        Takes the acknowledgments from their queue. Raises `DeliveryRefused` and `DeliveryTimeout`.
        """
        await wait_for_delivery(self._link, ids, administration_queue, until=until, timeout=timeout)

    async def info(self) -> ManagerInfo:
        """State of the queue manager."""
        return (await self._link.ask(queue_frames.Describe(), queue_frames.ManagerState)).info

    async def pause(self, outgoing: str) -> None:
        """Pause the delivery of an outgoing queue, given by its name or remote address."""
        await self._link.ask(
            queue_frames.PauseQueue(str(parse_queue_address(outgoing)), paused=True), Done
        )

    async def resume(self, outgoing: str) -> None:
        """Resume the delivery of an outgoing queue; a connection that is down is tried at once."""
        await self._link.ask(
            queue_frames.PauseQueue(str(parse_queue_address(outgoing)), paused=False), Done
        )

    async def peers(self) -> list[PeerInfo]:
        """The known queue manager at each address to which this one delivers."""
        return (await self._link.ask(queue_frames.ListPeers(), queue_frames.PeerList)).peers

    async def accept_peer(self, address: str, manager_id: str | None = None) -> None:
        """Deliver to another queue manager at an address than the known one.

        Without `manager_id`, to the one that answered there last. It gets the messages that wait
        for the known one. With the id of a queue manager that calls this one in the place of the
        address, take its messages by the caller that showed its key last. Raises `Misuse` if no
        other queue manager has answered, or no other caller has come.
        """
        await self._link.ask(queue_frames.AcceptPeer(address, manager_id or ""), Done)

    async def forget_peer(self, address: str) -> None:
        """Forget the queue manager known at an address; or, by its id, the caller of one."""
        await self._link.ask(queue_frames.ForgetPeer(address), Done)

    async def create_token(self, name: str, expires: float | None = None) -> str:
        """Make a token of the caller `token:NAME`; it expires after so many seconds, or never."""
        # The queue manager keeps only its hash.
        token = secrets.token_urlsafe(TOKEN_BYTES)
        lasts_us = 0 if expires is None else max(1, int(expires * 1_000_000))
        digest = digest_of_token(token)
        await self._link.ask(token_frames.CreateToken(name, digest, lasts_us), Done)
        return token

    async def tokens(self) -> list[TokenInfo]:
        """The tokens of this queue manager, also those that have expired."""
        return (await self._link.ask(token_frames.ListTokens(), token_frames.TokenList)).tokens

    async def revoke_token(self, name: str) -> None:
        """Take a token no more; the connections of its holders end."""
        await self._link.ask(token_frames.RevokeToken(name), Done)

    async def access(self) -> AccessInfo:
        """The rules of access, the connections that are open, and the last acts of callers."""
        return (await self._link.ask(token_frames.DescribeAccess(), token_frames.AccessState)).info

    async def unfinished_uploads(self) -> list[UnfinishedUpload]:
        """Unfinished uploads of the caller to all queues; see `LargeMessageQueue.unfinished`."""
        return await uploads_of(self._link)

    async def doctor(self, queue: str | None = None, *, idle: float = 60.0) -> list[DoctorFinding]:
        """Look for everything that keeps messages from moving, at a queue or at all.

        Nothing is changed. Each finding has a code, the queue and one sentence with what to do. A
        transaction counts as idle when nothing has happened in it for `idle` seconds.
        """
        name = None if queue is None else str(parse_queue_address(queue))
        return await examine(self._link, name, idle)

    async def move(self, source: str, target: str, ids: Iterable[str] | None = None) -> int:
        """Move the messages of these ids, or all, to another queue; return their number.

        A large message moves whole and counts as one; its `id` is its sequence id. The queue
        manager moves up to 1,000 messages in one transaction, and no body passes through this
        program. `target` may be a queue of another queue manager. A message keeps its id. Raises
        `InvalidArgument` if `target` is `source`, `MessageNotFound`, `QueueNotFound`,
        `QuotaExceeded`, `LargeMessageHole`; a lost answer raises `InDoubt`; `outcome` settles it.
        """
        return await moving.move_messages(self._link, source, target, ids)

    async def dead_letters(self) -> list[QueuedMessage]:
        """All dead letters without their bodies, a large message as one; `reason` says why."""
        return await moving.dead_letters_of(self._link)

    async def retry_dead_letters(
        self, ids: Iterable[str] | None = None, to: str | None = None
    ) -> int:
        """Send the dead letters of these ids again, or all; return their number.

        Each goes to the queue that it was sent to, or to the queue `to`. It leaves the dead letters
        in the transaction in which it joins the other queue, and its times to live begin anew. See
        `move`. Raises `Misuse` if a dead letter does not say where it was sent.
        """
        return await moving.retry_letters(self._link, ids, to)

    async def drop_dead_letters(self, ids: Iterable[str]) -> int:
        """Drop the dead letters of these ids for good; return their number. See `move`."""
        return await moving.drop_letters(self._link, ids)

    async def accept_outgoing(self, outgoing: str) -> int:
        """Deliver all messages of a diverged outgoing queue; return their number.

        The destination accepted messages of this queue from another copy of this queue manager's
        data directory, so some messages may arrive twice. Raises `Misuse` if the queue has not
        diverged.
        """
        name = str(parse_queue_address(outgoing))
        return (await self._link.ask(queue_frames.ResolveOutgoing(name, discard=False), Done)).count

    async def discard_outgoing(self, outgoing: str) -> int:
        """Turn all messages of a diverged outgoing queue into dead letters; return their number.

        See `accept_outgoing`. Messages sent later are delivered.
        """
        name = str(parse_queue_address(outgoing))
        return (await self._link.ask(queue_frames.ResolveOutgoing(name, discard=True), Done)).count

    async def set_quota(
        self,
        queue: str | None = None,
        quota: int | str | EllipsisType | None = ...,
        *,
        journal_quota: int | str | EllipsisType | None = ...,
    ) -> None:
        """Set the quotas (bytes) of a queue or of the whole queue manager; None is no limit.

        An omitted quota does not change. Stored messages stay, even above a new limit; only new
        ones are refused (R65).
        """
        name = "" if queue is None else str(parse_queue_address(queue))
        await self._link.ask(
            queue_frames.SetQuota(name, _quota_limit(quota), _quota_limit(journal_quota)), Done
        )

    async def backup(
        self,
        target: str | Path | BinaryIO,
        *,
        progress: Callable[[int, int], object] | None = None,
    ) -> BackupReport:
        """Write a backup of this moment to a path or a binary file opened for writing.

        The queue manager keeps working. The file appears when it is complete, and replaces an older
        one. `progress(bytes_done, bytes_total)` reports progress. Raises `StoreCorrupt` if the
        bytes of a message are damaged.
        """
        from dray.client.awaited.backup import back_up

        connection = await self._link.connection()
        return await back_up(connection, self._link.runtime, target, progress or _unheard)

    async def offer_file(
        self,
        path: str | Path,
        to: str,
        *,
        fragment_size: int = limits.MIB,
        window_size: int = limits.TRANSFER_WINDOW,
        request_timeout: float | None = limits.TRANSFER_REQUEST_TIMEOUT_S,
        consumers: str = "one",
        listen: str | None = AUTOMATIC,
        response_timeout: float = limits.TRANSFER_SILENCE_S,
        progress: Told | None = None,
        digest: str | None = None,
    ) -> Offer:
        """Offer a file to "one" or "many" consumers at the queue `to`, and serve them.

        The file is read once for its digest, then a reference is sent; no file data moves before a
        consumer asks. Consumers may ask for `request_timeout` seconds; None sets no limit. At most
        `window_size` fragments are unacknowledged. An unfinished offer of the same file to the same
        queue is resumed. `listen` is the address at which consumers may connect, by default the
        local address of the connection to the queue manager; None means never. Such connections use
        TLS if the one to the queue manager does. A consumer that is silent for `response_timeout`
        seconds is suspended. `progress` is called with each change, in a thread of its own.
        `digest` is "blake3" or "sha256", by default the digest of the queue, else "blake3". Raises
        `SourceUnreadable`, `TransferSourceChanged`.
        """
        from dray.client.awaited.offers import OfferRequest
        from dray.client.awaited.transfers import Manner

        asked = OfferRequest(
            Path(path),
            str(parse_queue_address(to)),
            fragment_size,
            window_size,
            request_timeout,
            consumers,
            digest,
        )
        return await self._running.offer(asked, Manner(listen, response_timeout, progress))

    async def accept_file(
        self,
        source: str,
        timeout: float | None = None,
        *,
        response_timeout: float = limits.TRANSFER_SILENCE_S,
        direct: bool | None = None,
    ) -> Incoming:
        """Accept the next file offered at a queue; `Incoming.save_to` receives it.

        A transfer from that queue that this program left unfinished comes first, unless its
        producer was silent and another offer is there. `direct` says whether to connect to the
        producer if it offers that; by default yes, unless the queue manager is reached through TLS
        and the producer offers no TLS. Raises `ReceiveTimeout` if no file is offered within
        `timeout` seconds.
        """
        from dray.client.awaited.transfers import Manner

        manner = Manner(silence_s=response_timeout, direct=direct)
        return await self._running.accept(source, timeout, manner)

    async def unfinished_transfers(self) -> list[TransferStatus]:
        """File transfers through this queue manager that can be resumed, in both directions."""
        return await self._running.unfinished()

    async def resume_transfer(
        self,
        transfer_id: str,
        *,
        listen: str | None = AUTOMATIC,
        response_timeout: float = limits.TRANSFER_SILENCE_S,
        direct: bool | None = None,
    ) -> Offer | Incoming:
        """Resume an unfinished transfer: serve an `Offer` again, or return an `Incoming` to save.

        `listen` as in `offer_file`, `direct` as in `accept_file`. Raises `Misuse` if there is no
        such transfer, `TransferSourceChanged`.
        """
        from dray.client.awaited.transfers import Manner

        manner = Manner(listen, response_timeout, direct=direct)
        return await self._running.resume(transfer_id, manner)

    async def cancel_transfer(self, transfer_id: str, consumer_id: str = "") -> None:
        """Cancel an unfinished transfer (of both ends the offer), or one consumer of it.

        A program of this user may be running it. Raises `Misuse` if there is no such transfer.
        """
        await self._running.cancel(transfer_id, consumer_id)

    async def linger(self, seconds: float) -> None:
        """Wait for consumers that took an offer which was cancelled here or whose file changed.

        One that asks now learns that; later nobody tells it. Returns at once if there can be none.
        """
        if self._transfers is not None:
            await self._transfers.linger(seconds)

    async def running_transfer(self, transfer_id: str) -> RunningTransfer | None:
        """A transfer that another program of this user runs (of both ends the offer), or None."""
        return await self._running.running(transfer_id)

    async def close(self) -> None:
        """Close the connection; open transactions are aborted, file transfers stop for now."""
        try:
            if self._transfers is not None:
                await self._transfers.close()
            await self._link.close()
        finally:
            if self._stop is not None:
                await self._link.runtime.offload(self._stop)

    @property
    def _running(self) -> Transfers:
        """The file transfers of this handle; most programs have none, and load nothing of them."""
        if self._transfers is None:
            require_linux("a file transfer")
            from dray.client.awaited.transfers import Transfers

            # Two threads that come here at once get the same.
            self._transfers = self._made.setdefault(Transfers, Transfers(self._link))
        return self._transfers

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _quota_limit(quota: int | str | EllipsisType | None) -> int | None:
    """A quota in bytes, None for no limit; `...` leaves it as it is."""
    return queue_frames.SetQuota.KEPT if isinstance(quota, type(...)) else optional_size(quota)


def _unheard(_done: int, _total: int) -> None:
    """Progress that nobody reads."""
