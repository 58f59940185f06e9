"""What the parts of the manager share during a turn: state, store, sessions, time, effects."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from dray.errors import DrayError
from dray.manager.change.acknowledgments import OwnMessages
from dray.manager.disk.disk_room import DiskRoom
from dray.manager.events import Answer, Body, Effect, Into
from dray.manager.facts import AnyFact, encode_fact
from dray.manager.notices import Notices
from dray.manager.peers.missing_queues import MissingQueues
from dray.manager.peers.untold_ends import UntoldEnds
from dray.manager.peers.waiting_for_room import WaitingForRoom
from dray.manager.queue.index import TAIL_BYTES
from dray.manager.session import Session
from dray.manager.state.awaiting import Awaiting
from dray.manager.state.outcomes import Outcomes
from dray.manager.transactions.barred import Barred
from dray.model.classes import QueueKind
from dray.model.ids import ManagerId, TransactionId, join_id
from dray.wire.frames import Head, failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from dray.delivery.events import Event as StreamEvent
    from dray.delivery.incoming import StreamKey
    from dray.manager.change.purging import Work
    from dray.manager.events import ManagerConfig, Peer
    from dray.manager.peers.repairs import Wanted
    from dray.manager.queue.queues import Queue
    from dray.manager.requests.backup import BackupRun, Preparation
    from dray.manager.requests.relay import Relay
    from dray.manager.state.ledger import Ledger
    from dray.manager.state.state import State
    from dray.manager.transactions.open_transaction import OpenTransaction
    from dray.model.queue import DeliveryInfo
    from dray.store.store import Store

MICROSECONDS = 1_000_000
_PORTIONS = 4
"""A group has room for what waits, a portion, and what else its turn may have to say."""
_WINDOWS = 5
"""A portion, less what the log keeps in reserve."""
_BESIDE_BYTES = 512
"""What a fact says besides its messages, and what its turn may say besides the fact."""


def window_of(log_capacity: int) -> int:
    """How many messages may be under way on a stream, so that one fact can say they are delivered.

    So is the order ack of a whole window noted at once, whatever is to be kept of each message.
    """
    return max(1, log_capacity // _WINDOWS // TAIL_BYTES)


class Context:
    """The manager's desk. Volatile but for `state`, which only `record` changes."""

    def __init__(self, state: State, store: Store, config: ManagerConfig, now: float) -> None:
        """Lay everything out."""
        self.state = state
        self.store = store
        self.config = config
        self.now = now
        self.started = now
        self.effects: list[Effect] = []
        self.sessions: dict[int, Session] = {}
        self.transactions: dict[int, OpenTransaction] = {}
        self.barred = Barred()
        self.backups: dict[int, BackupRun] = {}
        """Backups under way, by session."""
        self.claims: dict[int, OpenTransaction] = {}
        """Of the transactions, the receives outside of any that are not confirmed, oldest first."""
        self.express_outcomes = Outcomes(certain_from=state.next_number)
        """Sends and receives of express messages in this life; of earlier ones nobody knows."""
        self.idle: list[tuple[float, int]] = []
        """When to look whether a transaction is idle, soonest first."""
        self.aging: list[tuple[float, int]] = []
        """When to look whether an unfinished upload is too old, soonest first."""
        self.works: deque[Work] = deque()
        """What is done portion by portion (`purging.py`), in the order in which it was begun."""
        self.preparing: Preparation | None = None
        """The backup that was asked for and is not yet answered."""
        self.touched: dict[int, Queue] = {}
        """Queues in which something became available during this turn."""
        self.perhaps_unused: dict[int, None] = {
            each.number: None for each in state.queues if each.kind is QueueKind.SUB
        }
        """Sub-queues, by number, that may have lost their last use; at the start any may have."""
        self.own_messages = OwnMessages(self)
        self.confirmed: dict[StreamKey, Session] = {}
        """Over which session each incoming stream's source is told of its messages."""
        self.repairs: dict[Wanted, int] = {}
        """Holes that receivers want to be filled, and on which session their sources were asked."""
        self.to_tell: dict[StreamKey, None] = {}
        """Streams whose sources have news; they are told last in a turn, after any order ack."""
        self.untold_ends = UntoldEnds()
        """Messages of other managers that ended, until the managers are told how many."""
        self.awaiting = Awaiting(state)
        self.disk_room = DiskRoom(store, config.low_water_bytes)
        self.waiting_for_room = WaitingForRoom(state.ledger, self.disk_room)
        """Streams that the computer's quota or the disk had no room for."""
        self.missing_queues = MissingQueues(state.queues)
        """Streams that were refused because there is no such queue."""
        self.notices = Notices()
        """What an operator should know; the daemon writes it to its log."""
        self.followed: Callable[[AnyFact], None] | None = None
        """Called with each fact, so that queues' files say the same."""
        self.strangers: dict[Peer, str] = {}
        """The manager that answered last at an address at which another one is known."""
        self.skipped_ahead = False
        """Whether this life found out that the store is an older copy of itself."""
        self.own_addresses: frozenset[Peer] = frozenset()
        """Under which this manager is reached: a queue that is named by one is a queue here."""
        self.steer: Callable[[Queue, StreamEvent], None]
        self.delivery_of: Callable[[Queue], DeliveryInfo | None]
        self.resolve: Callable[[str], Queue]
        """Find or make the queue of a name; raises `QueueNotFound`."""
        self.known: Callable[[str], Queue | None]
        """The queue of a name as messages are sent to it, None if there is none.

        Raises `InvalidQueueName`.
        """
        self.relay: Relay
        """Who has which box of a file transfer."""
        self.source = bytes.fromhex(state.manager_id)

    @property
    def now_us(self) -> int:
        """The turn's time in microseconds."""
        return int(self.now * MICROSECONDS)

    @property
    def fact_bytes_max(self) -> int:
        """How many bytes one fact may take, so that a group of the log surely holds it.

        Besides what waits for that group already.
        """
        most = self.store.group_bytes_max
        return most - most // _PORTIONS - _BESIDE_BYTES

    @property
    def portion_bytes(self) -> int:
        """Bytes of one fact of those that could as well say less (`purging.py`)."""
        return self.store.group_bytes_max // _PORTIONS

    @property
    def has_said_enough(self) -> bool:
        """Whether so much waits for the next group of the log that more is said later."""
        return self.store.waiting_bytes >= self.portion_bytes

    def record(self, fact: AnyFact) -> None:
        """Make a fact true, and durable with the turn's sync."""
        self.state.apply(fact)
        self.store.append(encode_fact(fact))
        if self.followed is not None:
            self.followed(fact)

    def await_confirmations(self) -> None:
        """Learn which messages now wait for what became of them."""
        self.awaiting.look()

    def touch(self, queue: Queue) -> None:
        """Note that waiting receivers, or the queue's stream, may go on."""
        self.touched[queue.number] = queue

    def answer(
        self,
        session: Session,
        request_id: int,
        head: Head,
        body: Body = (),
        *,
        held: bool = True,
        into: Into | None = None,
    ) -> None:
        """Answer a request."""
        self.effects.append(Answer(session.number, request_id, head, body, held, into))

    def refuse(self, session: Session, request_id: int, error: DrayError) -> None:
        """Answer a request with an error."""
        self.effects.append(Answer(session.number, request_id, failure(error)))

    def transaction_id(self, number: int) -> TransactionId:
        """The text form of a transaction of this manager."""
        return TransactionId(join_id(ManagerId(self.state.manager_id), number))

    @property
    def ledger(self) -> Ledger:
        """What is used of the quotas."""
        return self.state.ledger
