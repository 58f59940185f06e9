"""An offer before it runs: its file is read, and its reference is put into the queue, once."""

from __future__ import annotations

import secrets
import time
from pathlib import Path
from typing import Final, NamedTuple

from dray.client.awaited.queue import Queue
from dray.client.awaited.transaction import Transaction
from dray.client.connections.link import Link
from dray.client.connections.runtime import Dialer
from dray.client.connections.threads import BlockingRuntime, run
from dray.client.files.file_identity import FileIdentity
from dray.client.files.steps import reached
from dray.client.transfer.reference import Reference, check_terms, reference_message
from dray.client.transfer.source import SourceFile, changed
from dray.client.transfer.state import Offered, StateFile
from dray.errors import AccessDenied, InDoubt, MessageNotFound, QueueNotFound
from dray.model.classes import TransactionStatus
from dray.model.limits import LABEL_CHARACTERS_MAX

ID_BYTES: Final = 16


class OfferRequest(NamedTuple):
    """The request of an offer."""

    path: Path
    queue: str
    fragment_size: int
    window_size: int
    wait_s: float | None
    consumers: str
    digest_kind: str | None
    """None: the digest of the queue."""


def offered_file(asked: OfferRequest, source: SourceFile, digest_kind: str) -> Offered:
    """Read the whole file: what is known of it before it moves."""
    size = source.identity.size
    check_terms(size, asked.fragment_size, asked.window_size)
    reference = Reference(
        transfer=secrets.token_hex(ID_BYTES),
        label=asked.path.name[:LABEL_CHARACTERS_MAX],
        size=size,
        digest=str(source.scan(asked.fragment_size, digest_kind)),
        fragment_size=asked.fragment_size,
        window_size=asked.window_size,
        consumers="many" if asked.consumers == "many" else "one",
    )
    return Offered(
        reference=reference,
        queue=asked.queue,
        path=str(asked.path),
        mtime_ns=source.identity.mtime_ns,
        inode=source.identity.inode,
        request_timeout=asked.wait_s,
    )


def source_of(kept: Offered) -> SourceFile:
    """The file of an earlier run's offer, read anew.

    Raises `SourceUnreadable`, `TransferSourceChanged`.
    """
    source, reference = SourceFile(Path(kept.path)), kept.reference
    try:
        then, wanted = (
            FileIdentity(reference.size, kept.mtime_ns, kept.inode),
            reference.fingerprint,
        )
        if source.identity != then or wanted != source.scan(reference.fragment_size, wanted.kind):
            raise changed(source.path, reference.transfer)
    except BaseException:
        source.close()
        raise
    return source


async def refer(link: Link, kept: Offered, state: StateFile) -> None:
    """Have the reference in the queue, once: its transaction is known before it is sent."""
    runtime = link.runtime
    if kept.consumers or await _was_sent(link, kept):
        return
    queue = Queue(link, kept.queue)
    message = reference_message(kept.reference, kept.request_timeout)
    kept.offered_at = time.time()
    if not (await queue.handle.opened()).transactional:
        await runtime.offload(state.write, kept)
        reached("offer-kept")
        try:
            await queue.send(message)
        except InDoubt as error:
            # The next call asks what became of it, and does not send another one.
            kept.transaction = error.transaction_id
            await runtime.offload(state.write, kept)
            raise
    else:
        async with await Transaction.begin(link) as transaction:
            kept.transaction = transaction.id
            await runtime.offload(state.write, kept)
            reached("offer-kept")
            await queue.send(message, transaction=transaction)
    reached("offer-sent")


async def _was_sent(link: Link, kept: Offered) -> bool:
    """Whether a reference of an earlier run of the program can still be in the queue."""
    if not kept.transaction:
        return False
    live_s = kept.request_timeout
    if live_s is not None and time.time() >= kept.offered_at + live_s:
        return False
    return await link.outcome(kept.transaction) is TransactionStatus.COMMITTED


def withdraw(dialer: Dialer, kept: Offered) -> bool:
    """Take the reference out of its queue, over a connection of its own; whether it was there.

    Raises `ConnectionLost`.
    """
    link = Link(dialer, BlockingRuntime())
    try:
        run(Queue(link, kept.queue).receive_by_correlation_id(kept.reference.transfer))
    except (MessageNotFound, QueueNotFound, AccessDenied):
        # Somebody was first, the queue has gone with it, or it is on its way to another one.
        return False
    finally:
        run(link.close())
    return True
