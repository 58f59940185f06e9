"""Who else is at work in worlds that ask for everything, besides those who send and receive.

A settler decides what was prepared; a meddler purges and pauses; a remaker deletes a queue and
makes it again; a closer deletes outgoing queues, which the next message makes again; auditors read,
in the end, what managers put into their own queues.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.model.classes import MessageClass
from dray.model.queue import QueueOptions
from dray.wire.message_frames import (
    Envelope,
    ListPrepared,
    Messages,
    PreparedList,
    Receive,
    SettlePrepared,
)
from dray.wire.queue_frames import CreateQueue, DeleteQueue, PauseQueue, PurgeQueue
from dray.wire.record import read_header, read_properties
from tests.worlds.manager_workload import ManagerSurroundings, Steps, cut_apart, open_all
from tests.worlds.message_ends import RECEIVED
from tests.worlds.simulated_client import LinkBroken, Refusal, Reply, Script, SimClient


class Settler:
    """Passes the second phase of what others have prepared, whoever they were."""

    def __init__(self, world: ManagerSurroundings) -> None:
        """Begin without decisions."""
        self._world = world
        self._decided: dict[str, bool] = {}

    def script(self, client: SimClient) -> Script:
        """Look now and then, until nobody can be waiting."""
        while not self._world.settled:
            try:
                yield from client.connect()
                while not self._world.settled:
                    yield from self._settle(client)
                    yield from client.sleep(client.rng.uniform(0.1, 1.0))
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.3))

    def _settle(self, client: SimClient) -> Steps:
        reply = yield from client.call(ListPrepared())
        assert isinstance(reply.head, PreparedList)
        for transaction_id in reply.head.transaction_ids:
            commit = self._decided.setdefault(transaction_id, client.rng.random() < 0.7)
            yield from client.call(SettlePrepared(transaction_id, commit))


class Meddler:
    """Purges queues and pauses deliveries, a few times."""

    def __init__(self, world: ManagerSurroundings, manager: str, outgoing: Sequence[str]) -> None:
        """Meddle with the queues of one manager."""
        self._world = world
        self._manager = manager
        self._outgoing = outgoing
        self._left = 3

    def script(self, client: SimClient) -> Script:
        """Meddle until the troubles end."""
        while self._left and client.world.troubled:
            try:
                yield from client.connect()
                numbers = yield from open_all(client, ["plain", *self._outgoing])
                while self._left and client.world.troubled:
                    self._left -= 1
                    yield from client.sleep(client.rng.uniform(0.5, 6.0) * self._world.plan.pace)
                    if self._world.plan.pauses and self._outgoing:
                        yield from self._pause(client)
                    if self._world.plan.purges:
                        self._world.message_ends.purged.add(f"{self._manager}/plain")
                        yield from client.call(PurgeQueue(numbers["plain"]))
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.3))

    def _pause(self, client: SimClient) -> Steps:
        name = client.rng.choice(self._outgoing)
        while True:
            try:
                # One that has carried nothing goes with the last session that had opened it.
                yield from open_all(client, [name])
                yield from client.call(PauseQueue(name, paused=True))
                yield from client.sleep(client.rng.uniform(0.0, 2.0))
                yield from client.call(PauseQueue(name, paused=False))
            except LinkBroken:
                yield from client.connect()
            else:
                return


class Remaker:
    """Deletes a queue to which others send, and makes it again, a few times."""

    def __init__(self, manager: str, world: ManagerSurroundings) -> None:
        """Do it to the queue `passing` of one manager."""
        self._world = world
        self._manager = manager
        self._left = 2

    def script(self, client: SimClient) -> Script:
        """Delete and make until the troubles end; then the queue is there for good."""
        made = True
        while not made or (self._left and client.world.troubled):
            try:
                yield from client.connect()
                while not made or (self._left and client.world.troubled):
                    yield from client.sleep(client.rng.uniform(0.2, 5.0) * self._world.plan.pace)
                    if made:
                        self._left -= 1
                        made = False
                        yield from self._delete(client)
                    else:
                        yield from client.call(
                            CreateQueue("passing", QueueOptions(), exist_ok=True)
                        )
                        made = True
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.3))

    @staticmethod
    def _delete(client: SimClient) -> Steps:
        try:
            yield from client.call(DeleteQueue("passing"))
        except Refusal as refusal:
            # What is prepared keeps it; or it is gone already, and the answer was lost.
            if refusal.error not in ("misuse", "queue-not-found"):
                raise


class Closer:
    """Deletes outgoing queues under traffic, a few times."""

    def __init__(
        self, world: ManagerSurroundings, manager: str, outgoing: Sequence[tuple[str, str]]
    ) -> None:
        """Do it at one manager, to the queues of these names that lead to these managers."""
        self._world = world
        self._manager = manager
        self._outgoing = outgoing
        self._left = 4

    def script(self, client: SimClient) -> Script:
        """Delete until the troubles end."""
        while self._left and client.world.troubled:
            try:
                yield from client.connect()
                while self._left and client.world.troubled:
                    yield from client.sleep(client.rng.uniform(0.1, 3.0) * self._world.plan.pace)
                    self._left -= 1
                    name, far = client.rng.choice(self._outgoing)
                    self._world.message_ends.abandoned.add((self._manager, f"{far}/leaving"))
                    yield from self._delete(client, name)
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.3))

    @staticmethod
    def _delete(client: SimClient, name: str) -> Steps:
        try:
            yield from client.call(DeleteQueue(name))
        except Refusal as refusal:
            # What is prepared keeps it; or nothing was sent to it yet.
            if refusal.error not in ("misuse", "queue-not-found"):
                raise


class Auditor:
    """Reads everything out of a queue of the manager's own, once the troubles are over."""

    def __init__(self, world: ManagerSurroundings, manager: str, name: str) -> None:
        """Read queue `name` of a manager."""
        self._world = world
        self._where = f"{manager}/{name}"
        self._name = name

    def script(self, client: SimClient) -> Script:
        """Wait, then read for ever."""
        while client.world.troubled:
            yield from client.sleep(1.0)
        yield from client.connect()
        numbers = yield from open_all(client, [self._name])
        while True:
            self._take((yield from client.call(Receive(numbers[self._name], 0, None, 10))))

    def last_look(self, client: SimClient, count: int) -> Steps:
        """Read `count` messages, all that there are in a world that is at rest."""
        numbers = yield from open_all(client, [self._name])
        while count > 0:
            reply = yield from client.call(Receive(numbers[self._name], 0, 0.0, count))
            count -= self._take(reply)

    def _take(self, reply: Reply) -> int:
        """Note what an answer has; gives how many."""
        assert isinstance(reply.head, Messages)
        for message_id, record, envelope in cut_apart(reply.body, reply.head.envelopes):
            self._note(message_id, record, envelope)
        return len(reply.head.envelopes)

    def _note(self, message_id: str, record: bytes, envelope: Envelope) -> None:
        ends, what = self._world.message_ends, MessageClass(envelope.message_class)
        if self._name == "acks":
            about = read_properties(record, read_header(record)).correlation_id
            ends.found_told(self._where, about or "", what)
        elif self._name == "system$;journal":
            ends.found_journaled(self._where, message_id)
        elif self._name == "loose":
            ends.saw(self._where, message_id, record)
            ends.ended(message_id, RECEIVED)
        else:
            ends.found_dead(self._where, message_id, what, self._world.schedule.now)
