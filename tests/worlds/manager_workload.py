"""What clients do in worlds that ask for everything: see `message_ends` for what must come of it.

Producers ask for acknowledgments, dead letters, journals and limits of time; takers receive,
reject, move aside, take whole transactions; either may end with two phases. Who else is there:
`bystanders`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, Protocol

import crc32c

from dray.errors import QuotaExceeded
from dray.model.classes import Acknowledge, MessageClass
from dray.model.ids import ManagerId, join_id
from dray.model.message import Message
from dray.testing.promises import BrokenPromiseError
from dray.wire.message_frames import (
    Abort,
    Commit,
    Envelope,
    Messages,
    Move,
    Prepare,
    Receive,
    ReceiveTransaction,
    Reject,
    Send,
    TransactionMessages,
)
from dray.wire.queue_frames import Opened, OpenQueue
from dray.wire.record import encode_record, read_header
from tests.worlds.manager_plan import Plan
from tests.worlds.message_ends import RECEIVED, REJECTED, Asked, MessageEnds
from tests.worlds.network import Schedule
from tests.worlds.shadow import Sent
from tests.worlds.simulated_client import LinkBroken, Refusal, Reply, Script, SimClient

Steps = Generator[float | None, Reply, Any]
BODY_BYTES_MAX = 700
VANISH, ABORT, PREPARE = 0.05, 0.15, 0.3
"""Below these a transaction ends so, of a chance between 0 and 1; the rest commit."""
IMPLICIT = 0.2
REJECTS, MOVES = 0.15, 0.2
CLAIMS = 3
"""Every third receive is outside of transactions."""
LIFE_S_MIN = 0.02
SLOWNESS_S = 0.5
"""How long a taker waits between two transactions, on average."""
_DEAD_LETTERS: Final[tuple[bool | None, ...]] = (True, True, None, None, False)
_ACKNOWLEDGE = (0, 0, 1, 2, 3, 4, 8, 5, 14, 15, 15)


class ManagerSurroundings(Protocol):
    """The world around producers, takers and bystanders, as far as these see it."""

    rng: random.Random
    schedule: Schedule
    plan: Plan
    message_ends: MessageEnds
    doubts: int
    troubled: bool

    @property
    def settled(self) -> bool:
        """Whether nobody can have prepared anything that is not settled."""
        ...

    def administration_queue(self, manager: str, at: str) -> str:
        """The name at `manager` of the administration queue that is at another, or here."""
        ...


class Target(NamedTuple):
    """A queue as a producer names it, and where it is."""

    name: str
    manager: str
    queue: str


class ManagerProducer:
    """Sends messages that ask for everything."""

    def __init__(
        self, world: ManagerSurroundings, manager: str, targets: Sequence[Target], count: int
    ) -> None:
        """Send `count` transactions to any of the targets."""
        self._world = world
        self._manager = manager
        self._targets = targets
        self._left = count
        self._doubt: Sent | None = None

    def script(self, client: SimClient) -> Script:
        """Do it all, over as many connections as it takes."""
        while self._left or self._doubt:
            try:
                yield from client.connect()
                yield from self._resolve(client)
                numbers = yield from self._open(client)
                while self._left:
                    self._left -= 1
                    if self._world.plan.closes:
                        numbers = yield from self._open(client)
                    if client.rng.random() < IMPLICIT:
                        yield from self._send_alone(client, numbers)
                    else:
                        yield from self._transaction(client, numbers)
                    yield from self._resolve(client)
                    yield from client.sleep(client.rng.expovariate(2))
                yield from self._linger(client)
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.1))

    def _open(self, client: SimClient) -> Steps:
        """Open what is opened before it is needed; in a small world nothing is."""
        names = [each.name for each in self._targets] if self._world.plan.is_large else []
        return (yield from open_all(client, names))

    def _linger(self, client: SimClient) -> Steps:
        linger_s = self._world.plan.linger_s
        if linger_s:
            yield from client.sleep(linger_s)

    def _resolve(self, client: SimClient) -> Steps:
        if self._doubt is not None:
            committed = yield from client.outcome(self._doubt.id)
            self._doubt.status = "committed" if committed else "aborted"
            self._doubt = None

    def _send_alone(self, client: SimClient, numbers: dict[str, int]) -> Steps:
        """Send outside any transaction: a transaction of its own, if the queue is transactional."""
        target = client.rng.choice(self._targets)
        queue = yield from number_of(client, numbers, target.name)
        sent = self._world.message_ends.begin(client.name, client.manager_id, client.number())
        message_id, record = self._make(client, sent, target, transactional=False)
        sent.status = "committing"
        # The batch goes by the number of its first message.
        sent.number = int(message_id.partition("\\")[2])
        try:
            yield from client.call(_send(queue, 0, [record]), record)
        except Refusal as refusal:
            sent.status = "refused" if refusal.error == QuotaExceeded.code else "aborted"
        except LinkBroken:
            self._doubt = sent
            raise
        else:
            sent.status = "committed"

    def _transaction(self, client: SimClient, numbers: dict[str, int]) -> Steps:
        rng, number = client.rng, client.number()
        sent = self._world.message_ends.begin(client.name, client.manager_id, number)
        targets = [
            each for each in self._targets if each.queue != "loose" or each.manager != self._manager
        ]
        sends = 0
        try:
            for _ in range(rng.randint(1, 3)):
                target = rng.choice(targets)
                queue = yield from number_of(client, numbers, target.name)
                batch = [
                    self._make(client, sent, target, transactional=True)[1]
                    for _ in range(rng.randint(1, 3))
                ]
                client.say(_send(queue, number, batch), b"".join(batch))
                sends += 1
            drawn = rng.random()
            if client.world.troubled and drawn < VANISH:
                client.vanish()
            if drawn < ABORT:
                yield from client.call(Abort(number))
                sent.status = "aborted"
                return
        except LinkBroken:
            sent.status = "aborted"
            raise
        sent.status = "committing"
        self._doubt = sent
        phase = Prepare if drawn < PREPARE and self._world.plan.prepares else Commit
        try:
            yield from client.call(phase(number, sends))
        except Refusal:
            sent.status, self._doubt = "aborted", None
        else:
            if phase is Commit:
                sent.status, self._doubt = "committed", None

    def _make(
        self, client: SimClient, sent: Sent, target: Target, *, transactional: bool
    ) -> tuple[str, bytes]:
        rng, world = client.rng, self._world
        acknowledge = Acknowledge(rng.choice(_ACKNOWLEDGE))
        told_at = rng.choice(world.plan.names)
        timed, life_s_max = world.plan.timed, world.plan.life_s_max
        message = Message(
            body=rng.randbytes(rng.randrange(BODY_BYTES_MAX)),
            label=f"to {target.queue}",
            acknowledge=acknowledge,
            administration_queue=world.administration_queue(self._manager, told_at),
            use_dead_letter_queue=_DEAD_LETTERS[int(rng.random() * len(_DEAD_LETTERS))],
            use_journal_queue=rng.random() < 0.3,
            time_to_reach_queue=_time_to_live(rng, life_s_max) if rng.random() < timed else None,
            time_to_be_received=_time_to_live(rng, life_s_max) if rng.random() < timed else None,
        )
        number = client.number()
        head, body = encode_record(message, bytes.fromhex(client.manager_id), number)
        record = head + bytes(body)
        message_id = join_id(ManagerId(client.manager_id), number)
        when = world.schedule.now
        world.message_ends.add(
            message_id,
            Asked(
                sent,
                self._manager,
                target.manager,
                target.queue,
                record,
                message,
                when,
                transactional,
                told_at,
            ),
        )
        return message_id, record


class Taker:
    """Takes everything out of one queue and its sub-queue, in every way there is."""

    def __init__(self, world: ManagerSurroundings, place: str, name: str) -> None:
        """Take from queue `name`, which the observer calls `place`."""
        self._world = world
        self._place = place
        self._name = name
        self._sub = f"{name};aside" if ";" not in name else name.partition(";")[0]
        self._doubt: tuple[str, dict[str, MessageClass]] | None = None

    def script(self, client: SimClient) -> Script:
        """Go on for ever."""
        while True:
            try:
                yield from client.connect()
                yield from self._resolve(client)
                numbers = yield from self._open(client)
                while True:
                    yield from self._resolve(client)
                    if not (yield from self._take(client, numbers)):
                        numbers = yield from self._open(client)
                    if client.world.troubled:
                        yield from client.sleep(client.rng.expovariate(1 / SLOWNESS_S))
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.1))

    def _open(self, client: SimClient) -> Steps:
        """Open the queue and its sub-queue, as soon as they are there."""
        while True:
            try:
                names = [self._name, *[self._sub] * self._world.plan.is_large]
                return (yield from open_all(client, names))
            except Refusal as refusal:
                if refusal.error != "queue-not-found" or not self._world.plan.remade:
                    raise
            yield from client.sleep(client.rng.uniform(0.05, 0.5))

    def _resolve(self, client: SimClient) -> Steps:
        if self._doubt is not None:
            transaction_id, ends = self._doubt
            if (yield from client.outcome(transaction_id)):
                self._ended(ends)
            self._doubt = None
            self._world.doubts -= 1

    def _ended(self, ends: dict[str, MessageClass]) -> None:
        for message_id, end in ends.items():
            self._world.message_ends.ended(message_id, end)

    def _take(self, client: SimClient, numbers: dict[str, int]) -> Steps:
        rng, number = client.rng, client.number()
        troubled = client.world.troubled
        rejects = troubled and self._world.plan.rejects
        way = rng.random() if troubled else 0.0
        timeout = rng.uniform(0.0, 0.5) if troubled else None
        try:
            if self._world.plan.moves and way > 1 - MOVES:
                yield from self._move(client, numbers, number)
                return True
            whole = way > 0.5 and ";" not in self._name
            # Outside of transactions a receive claims, and its commit says that it has come.
            claim = not whole and number % CLAIMS == 0
            queue = numbers[self._name]
            head = (
                ReceiveTransaction(queue, number, timeout)
                if whole
                else Receive(queue, number, timeout, rng.randint(1, 5), claim=claim)
            )
            reply = yield from client.call(head)
            ends, positions = self._shown(reply)
            for message_id, lookup_id in positions.items():
                if rejects and rng.random() < REJECTS and not claim:
                    yield from client.call(Reject(queue, lookup_id, number))
                    ends[message_id] = REJECTED
            yield from self._finish(client, number, ends, claim=claim)
        except Refusal as refusal:
            gone = refusal.error == "queue-not-found" and self._world.plan.remade
            if gone or refusal.error == "transaction-aborted":
                # A transaction that has taken from a queue that is deleted cannot commit.
                self._give_up_doubt()
            if gone:
                return False
            if refusal.error not in ("receive-timeout", "message-not-found", "transaction-aborted"):
                raise BrokenPromiseError(f"{client.name} was refused: {refusal}") from refusal
        return True

    def _give_up_doubt(self) -> None:
        if self._doubt is not None:
            self._doubt = None
            self._world.doubts -= 1

    def _shown(self, reply: Reply) -> tuple[dict[str, MessageClass], dict[str, int]]:
        head = reply.head
        assert isinstance(head, Messages | TransactionMessages)
        positions = {}
        groups = set()
        for message_id, record, envelope in cut_apart(reply.body, head.envelopes):
            asked = self._world.message_ends.saw(self._place, message_id, record)
            groups.add(asked.sent.id)
            positions[message_id] = envelope.lookup_id
        if isinstance(head, TransactionMessages):
            self._check_whole(head, groups, set(positions))
        return dict.fromkeys(positions, RECEIVED), positions

    def _check_whole(self, head: TransactionMessages, groups: set[str], here: set[str]) -> None:
        """A transaction is complete, but for what it says is missing."""
        if len(groups) != 1:
            raise BrokenPromiseError(f"{self._place} gave {groups} as one transaction")
        sent = self._world.message_ends.asked[next(iter(here))].sent
        everything = sent.groups[self._place.partition(";")[0]]
        absent = [at for at, each in enumerate(everything, 1) if each not in here]
        if head.missing != absent:
            raise BrokenPromiseError(
                f"{sent.id} in {self._place} lacks {absent}, told was {head.missing}"
            )

    def _move(self, client: SimClient, numbers: dict[str, int], number: int) -> Steps:
        """Put one message aside, or back, at once or in a transaction."""
        rng, queue = client.rng, numbers[self._name]
        sub = yield from number_of(client, numbers, self._sub)
        reply = yield from client.call(Receive(queue, 0, 0.0, 3, peek=True))
        _, positions = self._shown(reply)
        lookup_id = rng.choice(list(positions.values()))
        within = number if rng.random() < 0.5 else 0
        yield from client.call(Move(queue, lookup_id, sub, within))
        if within:
            yield from self._finish(client, number, {})

    def _finish(
        self,
        client: SimClient,
        number: int,
        ends: dict[str, MessageClass],
        *,
        claim: bool = False,
    ) -> Steps:
        drawn = client.rng.random() if client.world.troubled else 1.0
        if drawn < VANISH:
            client.vanish()
        if drawn < ABORT:
            yield from client.call(Abort(number))
            return
        self._doubt = (join_id(ManagerId(client.manager_id), number), ends)
        self._world.doubts += 1
        if drawn < PREPARE and self._world.plan.prepares and not claim:
            yield from client.call(Prepare(number, 0))
            return
        yield from client.call(Commit(number, 0))
        self._ended(ends)
        self._doubt = None
        self._world.doubts -= 1


def _time_to_live(rng: random.Random, longest_s: float) -> float:
    """A limit of time: short ones as likely as long ones."""
    return math.exp(rng.uniform(math.log(LIFE_S_MIN), math.log(longest_s)))


def open_all(client: SimClient, names: list[str]) -> Steps:
    """Open queues by name; gives their numbers."""
    numbers = {}
    for name in names:
        reply = yield from client.call(OpenQueue(name))
        assert isinstance(reply.head, Opened)
        numbers[name] = reply.head.number
    return numbers


def number_of(client: SimClient, numbers: dict[str, int], name: str) -> Steps:
    """The number of a queue among those that are open on this connection, opened if it is not."""
    if name not in numbers:
        numbers |= yield from open_all(client, [name])
    return numbers[name]


def _send(queue: int, transaction: int, records: list[bytes]) -> Send:
    sizes = [len(record) for record in records]
    return Send(queue, transaction, sizes, [crc32c.crc32c(record) for record in records])


def cut_apart(body: bytes, envelopes: list[Envelope]) -> list[tuple[str, bytes, Envelope]]:
    """Id, record and envelope of each message in an answer."""
    found, at = [], 0
    for envelope in envelopes:
        record = body[at : at + envelope.length]
        header = read_header(record)
        found.append((join_id(ManagerId(header.source.hex()), header.number), record, envelope))
        at += envelope.length
    return found
