"""The link to one queue manager: one connection, made anew at the first call after it broke."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, Protocol, TypeVar
from weakref import ref

from dray.client.connections.claims import Claims
from dray.client.connections.connection import Connection
from dray.client.connections.lost_answers import Lost
from dray.client.connections.runtime import Dialer, Runtime
from dray.errors import ConnectionLost, InvalidConfiguration, QueueNotFound
from dray.forks import Process, not_sent, tell_of_forks, this_process, wrong_process
from dray.large.digests import DIGEST_KIND_DEFAULT
from dray.model.classes import TransactionStatus
from dray.model.message import Buffer
from dray.wire.head import Head
from dray.wire.message_frames import Outcome, OutcomeIs
from dray.wire.queue_frames import Opened
from dray.wire.stream import Frame

_Answer = TypeVar("_Answer", bound=Head)
_BEGUN_KEPT = 64
"""So many transactions are remembered before those that nobody holds any more are forgotten."""


class UnderWay(Protocol):
    """Something that this program has begun and may still end either way."""

    @property
    def under_way(self) -> bool:
        """Whether it has not ended yet."""


class Link:
    """Gives a connection that is alive; shared by all handles of one `Manager`."""

    def __init__(self, dialer: Dialer, runtime: Runtime) -> None:
        """Keep the dialer; nothing is connected yet."""
        self.runtime = runtime
        self._dialer = dialer
        self._lock = runtime.lock()
        self._connection: Connection | None = None
        self.closed = False
        """Whether this program has closed it; no other connection is made."""
        # A dictionary that forgets by itself would run code of its own when a transaction is freed,
        # and Python drops a KeyboardInterrupt that arrives there.
        self._begun: dict[str, ref[UnderWay]] = {}
        self._begun_most = _BEGUN_KEPT
        self._left_behind: dict[str, Process] = {}
        """Transactions that were under way in the process from which this one was forked."""
        self.claims = Claims()
        tell_of_forks(self)

    def __str__(self) -> str:
        return str(self._dialer)

    def __reduce__(self) -> NoReturn:
        raise not_sent(f"what is connected to {self}")

    @property
    def dialer(self) -> Dialer:
        """Dials this queue manager, for callers that want a connection of their own."""
        return self._dialer

    async def connection(self) -> Connection:
        """Give the current connection or make one; raises `ConnectionLost`."""
        this_process()
        connection = self._connection
        if connection is not None:
            # Notices that the other end went away while nothing was asked of it.
            connection.glance()
            if connection.lost is None:
                return connection
        async with self._lock:
            if self.closed:
                raise ConnectionLost(
                    f"the connection to {self._dialer} was closed with close(); connect again"
                )
            if self._connection is None or self._connection.lost is not None:
                self._connection = await self._connect()
            return self._connection

    def note_begun(self, transaction_id: str, transaction: UnderWay) -> None:
        """Remember a transaction that was begun here, for as long as somebody holds it."""
        self._begun[transaction_id] = ref(transaction)
        if len(self._begun) > self._begun_most:
            for name, begun in list(self._begun.items()):
                if begun() is None:
                    self._begun.pop(name, None)
            self._begun_most = max(_BEGUN_KEPT, 2 * len(self._begun))

    def is_under_way(self, transaction_id: str) -> bool:
        """Whether a transaction was begun here and has not ended; the manager may not know it.

        Raises `WrongProcess` for one that was under way in the parent when this process was forked:
        to ask the queue manager for it could abort it.
        """
        this_process()
        if transaction_id in self._left_behind:
            raise wrong_process(
                self._left_behind[transaction_id],
                f"transaction {transaction_id} was under way and",
                "ask for its outcome there",
            )
        noted = self._begun.get(transaction_id)
        begun = None if noted is None else noted()
        return begun is not None and begun.under_way

    async def ask(self, head: Head, answer: type[_Answer]) -> _Answer:
        """Send a request to the queue manager, give the head of its answer."""
        return await (await self.connection()).ask(head, answer)

    async def outcome(self, transaction_id: str) -> TransactionStatus:
        """Ask the queue manager what became of a transaction."""
        return TransactionStatus((await self.ask(Outcome(transaction_id), OutcomeIs)).status)

    def after_fork(self, parent: Process) -> None:
        """In a child: connect anew when asked, and leave the transactions to the parent."""
        self._lock = self.runtime.lock()
        self._connection = None
        self.claims = Claims()
        begun, self._begun = self._begun, {}
        for transaction_id, noted in begun.items():
            transaction = noted()
            if transaction is not None and transaction.under_way:
                self._left_behind[transaction_id] = parent

    async def close(self) -> None:
        """Close the connection; no other is made."""
        this_process()
        async with self._lock:
            self.closed = True
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    async def _connect(self) -> Connection:
        again = self._connection is not None
        if self._connection is not None:
            self._connection.close()
        try:
            credential = await self.runtime.offload(self._dialer.credential)
            connection = await self.runtime.connect(self._dialer)
        except InvalidConfiguration as error:
            if not again:
                raise
            # A file that was good before may be replaced at this moment.
            raise ConnectionLost(f"no connection to {self._dialer} is made: {error}") from error
        try:
            await connection.greet(credential)
        except BaseException:
            connection.close()
            raise
        return connection


class QueueHandle:
    """Sends requests to one queue; resolves its name on the connection that is current."""

    def __init__(self, link: Link, name: str) -> None:
        """Take a queue's canonical name; it is resolved at first use."""
        self.link = link
        self.name = name

    async def opened(self, connection: Connection | None = None) -> Opened:
        """Resolve the queue; raises `QueueNotFound`."""
        return await (connection or await self.link.connection()).open_queue(self.name)

    async def digest_kind(self, connection: Connection | None = None) -> str:
        """The digest that the queue has chosen for large messages and files, else the default."""
        return (await self.opened(connection)).digest or DIGEST_KIND_DEFAULT

    async def call(
        self,
        request: Callable[[int], Head],
        answer: type[Head],
        *,
        wait_s: float | None = None,
        body: Sequence[Buffer] = (),
        connection: Connection | None = None,
        lost: Lost | None = None,
    ) -> tuple[Connection, Frame]:
        """Ask something of this queue: `request` makes the head from the queue's number.

        A queue that was deleted and made anew under its old name is found again. `lost` is that of
        `Connection.call`.
        """
        connection = connection or await self.link.connection()
        known = connection.known.get(self.name)
        if known is not None:
            try:
                head = request(known.number)
                return connection, await connection.call(
                    head, answer, wait_s=wait_s, body=body, lost=lost
                )
            except QueueNotFound:
                connection.forget_queues()
        head = request((await connection.open_queue(self.name)).number)
        return connection, await connection.call(head, answer, wait_s=wait_s, body=body, lost=lost)
