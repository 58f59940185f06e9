"""The blocking face of `awaited.manager`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from dray.client.awaited.manager import Manager as AwaitedManager
from dray.client.blocking.face import Face, blocking, blocking_as
from dray.client.blocking.queue import Queue
from dray.client.blocking.transaction import Transaction
from dray.client.calls.public_calls import checked, public
from dray.client.connections.address import parse_address
from dray.client.connections.link import Link
from dray.client.connections.threads import BlockingRuntime, run
from dray.net.doors import default_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from dray.client.awaited.transfer import Incoming as AwaitedIncoming
    from dray.client.awaited.transfer import Offer as AwaitedOffer
    from dray.client.awaited.transfer import RunningTransfer as AwaitedRunning
    from dray.client.blocking.file_transfer import Incoming, Offer, RunningTransfer
    from dray.client.connections.runtime import Dialer


def _offer(awaited: AwaitedOffer) -> Offer:
    from dray.client.blocking.file_transfer import Offer

    return Offer(awaited)


def _incoming(awaited: AwaitedIncoming) -> Incoming:
    from dray.client.blocking.file_transfer import Incoming

    return Incoming(awaited)


def _running(awaited: AwaitedRunning | None) -> RunningTransfer | None:
    from dray.client.blocking.file_transfer import RunningTransfer

    return None if awaited is None else RunningTransfer(awaited)


def _either_end(awaited: AwaitedOffer | AwaitedIncoming) -> Offer | Incoming:
    from dray.client.awaited.transfer import Offer

    return _offer(awaited) if isinstance(awaited, Offer) else _incoming(awaited)


@checked
def connect(
    url: str | None = None,
    *,
    ca: str | os.PathLike[str] | None = None,
    cert: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    token: str | os.PathLike[str] | None = None,
    token_file: str | os.PathLike[str] | None = None,
    caller: str | None = None,
) -> Manager:
    """Connect to a queue manager at `dray://host:port`, `drays://host:port` or `dray+unix:///path`.

    Without a URL it is the queue manager of DRAY_URL, else the one that runs here by itself
    (`dray serve` without an address). `drays` is TLS. `ca` names a file of trusted certificates, by
    default that of DRAY_CA, else the authorities of the machine. `cert` and `key` (DRAY_CERT,
    DRAY_KEY) name the certificate to present to a queue manager that asks for one. `token` tells it
    who you are: the text, or the path of a file with it that only its owner can open, as in
    `token_file`. By default it is that of DRAY_TOKEN.
    The account that runs the queue manager may act for the holder of a certificate: with
    `caller="cert:NAME"` it has that holder's rights.

    Raises
    ------
    `InvalidConfiguration` for another URL, and `ConnectionLost` if no queue manager answers.

    """
    address = default_url() if url is None else url
    return Manager(
        parse_address(address, ca, cert, key, token=token, token_file=token_file, caller=caller)
    )


@public(made_by="dray.connect or dray.open")
class Manager(Face[AwaitedManager]):
    """A connection to a queue manager. Any number of threads may share it.

    When the connection breaks, calls in progress raise `ConnectionLost` (a commit: `InDoubt`), the
    queue manager aborts the transactions of that connection, and the next call connects again.
    """

    def __init__(
        self,
        dialer: Dialer,
        stop: Callable[[], None] | None = None,
        runtime: BlockingRuntime | None = None,
    ) -> None:
        """Connect; `stop` is called after closing, by the embedded queue manager."""
        link = Link(dialer, runtime or BlockingRuntime())
        super().__init__(run(AwaitedManager.connected(link, stop)))

    create_queue = blocking_as(Queue, AwaitedManager.create_queue)
    queues = blocking(AwaitedManager.queues)
    delete_queue = blocking(AwaitedManager.delete_queue)
    transaction = blocking_as(Transaction, AwaitedManager.transaction)
    outcome = blocking(AwaitedManager.outcome)
    prepared = blocking(AwaitedManager.prepared)
    commit_prepared = blocking(AwaitedManager.commit_prepared)
    abort_prepared = blocking(AwaitedManager.abort_prepared)
    wait_for_delivery = blocking(AwaitedManager.wait_for_delivery)
    info = blocking(AwaitedManager.info)
    pause = blocking(AwaitedManager.pause)
    resume = blocking(AwaitedManager.resume)
    peers = blocking(AwaitedManager.peers)
    accept_peer = blocking(AwaitedManager.accept_peer)
    forget_peer = blocking(AwaitedManager.forget_peer)
    access = blocking(AwaitedManager.access)
    unfinished_uploads = blocking(AwaitedManager.unfinished_uploads)
    doctor = blocking(AwaitedManager.doctor)
    move = blocking(AwaitedManager.move)
    dead_letters = blocking(AwaitedManager.dead_letters)
    retry_dead_letters = blocking(AwaitedManager.retry_dead_letters)
    drop_dead_letters = blocking(AwaitedManager.drop_dead_letters)
    create_token = blocking(AwaitedManager.create_token)
    tokens = blocking(AwaitedManager.tokens)
    revoke_token = blocking(AwaitedManager.revoke_token)
    accept_outgoing = blocking(AwaitedManager.accept_outgoing)
    discard_outgoing = blocking(AwaitedManager.discard_outgoing)
    set_quota = blocking(AwaitedManager.set_quota)
    backup = blocking(AwaitedManager.backup)
    offer_file = blocking_as(_offer, AwaitedManager.offer_file)
    accept_file = blocking_as(_incoming, AwaitedManager.accept_file)
    unfinished_transfers = blocking(AwaitedManager.unfinished_transfers)
    resume_transfer = blocking_as(_either_end, AwaitedManager.resume_transfer)
    cancel_transfer = blocking(AwaitedManager.cancel_transfer)
    linger = blocking(AwaitedManager.linger)
    running_transfer = blocking_as(_running, AwaitedManager.running_transfer)
    close = blocking(AwaitedManager.close)

    def queue(self, name: str, *, raw: bool = False) -> Queue:
        """Return a handle of a queue; a missing queue raises `QueueNotFound` at first use.

        `name` may be a sub-queue, `orders;retry`, created on demand, or a queue of another manager,
        `dray://host:port/name`. A `raw` handle of a queue of large messages sees and takes single
        parts.
        """
        return Queue(self.awaited.queue(name, raw=raw))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
