"""What simulated clients do: producers commit, abort and vanish; so do consumers.

Every message is told to the shadow before it is sent and when it is seen, every outcome when it is
known. An outcome in doubt is asked for on the next connection before anything else is done.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import crc32c

from dray.large.digests import DIGEST_KIND_DEFAULT, DIGESTS
from dray.large.split import LargeMessageParameters, Split
from dray.model.ids import ManagerId, join_id
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.testing.promises import BrokenPromiseError
from dray.wire.frames import Done
from dray.wire.large_frames import LargeFound, LargeReceive, ReadPart
from dray.wire.message_frames import Abort, Commit, Messages, Receive, Send, Settle
from dray.wire.queue_frames import CreateQueue, Opened, OpenQueue, QueueState
from dray.wire.record import PLAIN, PartMark, encode_record, read_header
from tests.worlds.shadow import Expected, Large, Sent, Shadow
from tests.worlds.simulated_client import LinkBroken, Refusal, Reply, Script, SimClient

Steps = Generator[float | None, Reply, Any]
FRAGMENT_BYTES = 3000
PLAIN_BYTES_MAX = 2500
VANISH, ABORT = 0.05, 0.2
"""Below these a transaction ends so, of a chance between 0 and 1; the rest commit."""
LOSSY, LEFT_OUT = 0.15, 0.3
"""Share of large messages sent with holes on purpose, and of their parts that are left out."""


class Producer:
    """Sends transactions to queues of its own manager and of others."""

    def __init__(self, shadow: Shadow, targets: list[tuple[str, str, bool]], count: int) -> None:
        """Send `count` transactions to targets: name, name for the shadow, whether large."""
        self._shadow = shadow
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
                    yield from self._transaction(client, numbers)
                    yield from client.sleep(client.rng.expovariate(20))
            except LinkBroken:
                yield from client.sleep(client.rng.uniform(0.0, 0.1))

    def _resolve(self, client: SimClient) -> Steps:
        if self._doubt is not None:
            committed = yield from client.outcome(self._doubt.id)
            self._shadow.settled(self._doubt, committed=committed)
            self._doubt = None

    def _open(self, client: SimClient) -> Steps:
        numbers = {}
        for name, _, _ in self._targets:
            while name not in numbers:
                try:
                    reply = yield from client.call(OpenQueue(name))
                except Refusal:
                    yield from client.sleep(0.1)
                else:
                    assert isinstance(reply.head, Opened)
                    numbers[name] = reply.head.number
        return numbers

    def _transaction(self, client: SimClient, numbers: dict[str, int]) -> Steps:
        rng, number = client.rng, client.number()
        sent = self._shadow.begin(client.name, client.manager_id, number)
        drawn = rng.random()
        sends = 0
        try:
            for _ in range(rng.randint(1, 3)):
                name, full_name, large = rng.choice(self._targets)
                make = self._large if large else self._plain
                batch = make(client, sent, full_name)
                if batch:
                    sizes = [len(record) for record in batch]
                    crcs = [crc32c.crc32c(record) for record in batch]
                    client.say(Send(numbers[name], number, sizes, crcs), b"".join(batch))
                    sends += 1
            if client.world.troubled and drawn < VANISH:
                client.vanish()
            if drawn < ABORT:
                yield from client.call(Abort(number))
                self._shadow.settled(sent, committed=False)
                return
        except LinkBroken:
            self._shadow.settled(sent, committed=False)
            raise
        yield from self._commit(client, sent, Commit(number, sends))

    def _commit(self, client: SimClient, sent: Sent, commit: Commit) -> Steps:
        sent.status = "committing"
        self._doubt = sent
        try:
            yield from client.call(commit)
        except Refusal:
            self._shadow.settled(sent, committed=False)
        else:
            self._shadow.settled(sent, committed=True)
        self._doubt = None

    def _plain(self, client: SimClient, sent: Sent, queue: str) -> list[bytes]:
        batch = []
        for _ in range(client.rng.randint(1, 4)):
            body = client.rng.randbytes(client.rng.randrange(PLAIN_BYTES_MAX))
            message_id, record = _record(client, Message(body=body, label="plain"))
            self._shadow.add(sent, message_id, Expected(sent, queue, record))
            batch.append(record)
        return batch

    def _large(self, client: SimClient, sent: Sent, queue: str) -> list[bytes]:
        """A large message, now and then with parts left out on purpose."""
        rng, manager, sequence = client.rng, client.manager_id, client.number()
        split = Split(
            Message(label="large"),
            ManagerId(manager),
            sequence,
            parameters=LargeMessageParameters(),
            fragment_size=FRAGMENT_BYTES,
        )
        count = rng.randint(0, 5)
        large = self._shadow.large[split.sequence_id] = Large(count)
        pieces = [rng.randbytes(rng.randint(1, FRAGMENT_BYTES)) for _ in range(count)]
        large.bodies = dict(enumerate(pieces, 1))
        made: list[tuple[int | str, Any]] = [("header", split.header())]
        made += [(number, split.fragment(body)) for number, body in large.bodies.items()]
        digest = DIGESTS[DIGEST_KIND_DEFAULT]()
        digest.update(b"".join(pieces))
        made.append(("trailer", split.trailer(digest.digest())))
        lossy = rng.random() < LOSSY
        batch = []
        for part, (message, mark) in made:
            if lossy and rng.random() < LEFT_OUT:
                continue
            number = sequence if part == "header" else client.number()
            message_id, record = _record(client, message, number, mark)
            expected = Expected(sent, queue, record, split.sequence_id, part)
            self._shadow.add(sent, message_id, expected)
            batch.append(record)
        return batch


def _record(
    client: SimClient, message: Message, number: int = 0, mark: PartMark = PLAIN
) -> tuple[str, bytes]:
    number = number or client.number()
    head, body = encode_record(message, bytes.fromhex(client.manager_id), number, mark)
    return join_id(ManagerId(client.manager_id), number), head + bytes(body)


class Consumer:
    """Takes everything out of one queue, in transactions, some of which come to nothing."""

    def __init__(self, shadow: Shadow, name: str, full_name: str, *, large: bool) -> None:
        """Create and read queue `name`, which the shadow calls `full_name`."""
        self._options = QueueOptions()
        self._shadow = shadow
        self._name = name
        self._queue = full_name
        self._large = large
        self._doubt: tuple[str, list[str]] | None = None
        self._expected_first = 0

    def script(self, client: SimClient) -> Script:
        """Go on for ever."""
        while True:
            try:
                yield from client.connect()
                yield from self._resolve(client)
                create = CreateQueue(self._name, self._options, exist_ok=True)
                reply = yield from client.call(create)
                assert isinstance(reply.head, QueueState)
                opened = (yield from client.call(OpenQueue(self._name))).head
                assert isinstance(opened, Opened)
                while True:
                    yield from self._receive(client, opened.number)
            except LinkBroken:
                self._expected_first = 0
                yield from client.sleep(client.rng.uniform(0.0, 0.1))

    def _resolve(self, client: SimClient) -> Steps:
        if self._doubt is not None:
            transaction_id, message_ids = self._doubt
            if (yield from client.outcome(transaction_id)):
                self._shadow.took(message_ids)
            self._doubt = None

    def _receive(self, client: SimClient, queue: int) -> Steps:
        rng = client.rng
        ways = (
            [self._whole, self._whole, self._single]
            if self._large
            else [self._single, self._peeked]
        )
        if self._large and not client.world.troubled:
            ways = [self._whole]
        try:
            yield from rng.choice(ways)(client, queue, client.number())
        except Refusal as refusal:
            self._expected_first = 0
            if refusal.error == "large-message-hole":
                self._shadow.hole(refusal.fields["sequence_id"], refusal.fields["missing"])
            elif refusal.error not in ("receive-timeout", "transaction-aborted"):
                raise BrokenPromiseError(f"{client.name} was refused: {refusal}") from refusal

    def _patience(self, client: SimClient) -> float | None:
        return client.rng.uniform(0.0, 0.5) if client.world.troubled else None

    def _single(self, client: SimClient, queue: int, number: int) -> Steps:
        """Receive single messages; of a large queue as a raw reader."""
        most = client.rng.randint(1, 2 if self._large else 6)
        head = Receive(queue, number, self._patience(client), most, guarded=not self._large)
        reply = yield from client.call(head)
        message_ids, first = self._shown(reply)
        if self._expected_first and first != self._expected_first:
            raise BrokenPromiseError(
                f"{self._queue} gave {first}, after an abort {self._expected_first} was first"
            )
        yield from self._finish(client, number, message_ids, first)

    def _peeked(self, client: SimClient, queue: int, number: int) -> Steps:
        """Look at messages, then settle up to the last of them."""
        head = Receive(queue, 0, self._patience(client), client.rng.randint(1, 6), peek=True)
        reply = yield from client.call(head)
        message_ids, _ = self._shown(reply)
        assert isinstance(reply.head, Messages)
        settle = Settle(queue, reply.head.envelopes[-1].lookup_id, number)
        settled = yield from client.call(settle)
        assert isinstance(settled.head, Done)
        if settled.head.count != len(message_ids):
            # Something came back below that position since; it was not looked at.
            yield from client.call(Abort(number))
            return
        yield from self._finish(client, number, message_ids, 0)

    def _whole(self, client: SimClient, queue: int, number: int) -> Steps:
        """Receive a large message and read all its fragments."""
        reply = yield from client.call(LargeReceive(queue, number, self._patience(client)))
        found = reply.head
        assert isinstance(found, LargeFound)
        assert found.trailer is not None
        bodies = []
        for part in found.parts:
            record = b""
            while len(record) < part.length:
                size = min(part.length - len(record), 2000)
                piece = yield from client.call(ReadPart(queue, part.lookup_id, len(record), size))
                record += piece.body
            if crc32c.crc32c(record) != part.crc:
                raise BrokenPromiseError(f"a fragment of {self._queue} is damaged")
            bodies.append(record[-read_header(record).body_bytes :])
        sequence_id = join_id(ManagerId(found.source), found.sequence)
        message_ids = self._shadow.whole(sequence_id, bodies)
        inner = [part.lookup_id for part in found.parts]
        lookup_ids = [found.header.lookup_id, *inner, found.trailer.lookup_id]
        for lookup_id, message_id in zip(lookup_ids, message_ids, strict=True):
            self._shadow.at(self._queue, lookup_id, message_id)
        yield from self._finish(client, number, message_ids, 0)

    def _shown(self, reply: Reply) -> tuple[list[str], int]:
        assert isinstance(reply.head, Messages)
        message_ids, at = [], 0
        for envelope in reply.head.envelopes:
            record = reply.body[at : at + envelope.length]
            message_ids.append(self._shadow.saw(self._queue, envelope, record))
            at += envelope.length
        return message_ids, reply.head.envelopes[0].lookup_id

    def _finish(self, client: SimClient, number: int, message_ids: list[str], first: int) -> Steps:
        """Commit, abort or vanish."""
        self._expected_first = 0
        drawn = client.rng.random() if client.world.troubled else 1.0
        if drawn < VANISH:
            client.vanish()
        if drawn < ABORT:
            yield from client.call(Abort(number))
            self._expected_first = first
            return
        self._doubt = (join_id(ManagerId(client.manager_id), number), message_ids)
        yield from client.call(Commit(number, 0))
        self._shadow.took(message_ids)
        self._doubt = None
