"""A queue manager that is driven in frames, one request and its answer at a time.

No daemon, no sockets, no time: `ask` gives what the manager answered at once, durable or not. The
caller decides when to sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import crc32c

from dray.errors import DrayError, ReceiveTimeout, from_code
from dray.manager import events
from dray.manager.turn import QueueManager
from dray.model.callers import OWNER, Caller
from dray.model.queue import QueueInfo
from dray.store.disk import Disk
from dray.store.heap.heap import Extent
from dray.store.store import Store
from dray.testing.keyed_manager import KeyedManager, id_named, key_named
from dray.testing.promises import BrokenPromiseError
from dray.testing.storage_model import Key
from dray.wire import frames, message_frames, queue_frames
from dray.wire.head import Head
from dray.wire.record import read_header
from dray.wire.stream import Frame

NOW = 1_700_000_000.0
MANAGER_ID = id_named("a")
PEER_ID = id_named("b")
CONFIG = events.ManagerConfig(
    manager_id=MANAGER_ID, key=key_named("a"), name="torture", low_water_bytes=0
)


class Sizes(NamedTuple):
    """The sizes of the files of a simulated store: the smaller, the sooner everything happens."""

    heap_file_bytes: int = 16 << 10
    log_bytes: int = 24 << 10
    queue_files: bool = False
    express_bytes: int = 6 << 10


class Seen(NamedTuple):
    """One message that the manager showed."""

    key: Key
    lookup_id: int
    record: bytes
    message_class: int


class ManagerHarness:
    """One manager, from its start to its end."""

    def __init__(self, disk: Disk, sizes: Sizes, config: events.ManagerConfig = CONFIG) -> None:
        """Recover from `disk`."""
        self.sizes = sizes
        self.now = NOW
        self.dialled: list[events.Dial] = []
        self.sent: list[events.LinkSend] = []
        self.sessions = 0
        self._requests = 0
        self.recover(disk, config)

    def recover(self, disk: Disk, config: events.ManagerConfig) -> None:
        """Begin anew with what `disk` holds; numbers of sessions and requests go on."""
        self.store = Store(
            disk,
            heap_file_bytes=self.sizes.heap_file_bytes,
            log_bytes=self.sizes.log_bytes,
            queue_files=self.sizes.queue_files,
            express_bytes=self.sizes.express_bytes,
        )
        try:
            self.manager = QueueManager.load(self.store, config, self.now)
        except BaseException:
            self.store.close()
            raise

    def handle(self, event: events.Event) -> list[events.Effect]:
        """Let the manager decide; what it wants of peers is kept."""
        effects = self.manager.handle(event, self.now)
        for effect in effects:
            if isinstance(effect, events.Dial):
                self.dialled.append(effect)
            elif isinstance(effect, events.LinkSend):
                self.sent.append(effect)
        return effects

    def open(self, who: Caller = OWNER) -> int:
        """Open a session, before its Hello."""
        self.sessions += 1
        self.handle(events.SessionOpened(self.sessions, who))
        return self.sessions

    def close(self, session: int) -> None:
        """End a session."""
        self.handle(events.SessionClosed(session))

    def client(self) -> tuple[int, frames.Welcome]:
        """A session of a client, and what it was welcomed with."""
        session = self.open()
        welcome, _ = self.ask(session, frames.Hello("client"))
        assert isinstance(welcome, frames.Welcome)
        return session, welcome

    def source(self) -> tuple[int, KeyedManager]:
        """A session of the other manager, which is welcome."""
        session, other = self.open(), KeyedManager("b")
        welcome, _ = self.ask(session, other.hello())
        assert isinstance(welcome, frames.Welcome)
        other.welcomed(welcome)
        return session, other

    def ask(self, session: int, head: Head, body: bytes = b"") -> tuple[Head, bytes]:
        """The answer to a request that is answered at once; raises what refuses it."""
        answer = self.say(session, head, body)
        if answer is None:
            raise BrokenPromiseError(f"{type(head).__name__} was not answered")
        return answer.head, self.body_of(answer)

    def say(self, session: int, head: Head, body: bytes = b"") -> events.Answer | None:
        """Send a frame; the answer, if there is one. Raises what refuses it."""
        request_id, effects = self.request(session, head, body)
        for effect in effects:
            # A frame to another queue manager answers no request: its id is 0.
            if (
                isinstance(effect, events.Answer)
                and effect.session == session
                and effect.request_id in {request_id, 0}
            ):
                if isinstance(effect.head, frames.Failed):
                    refused = effect.head
                    raise from_code(refused.error, refused.sentence, refused.fields)
                return effect
        return None

    def request(
        self, session: int, head: Head, body: bytes = b""
    ) -> tuple[int, list[events.Effect]]:
        """Send a frame; its request id, and the effects of its turn."""
        self._requests += 1
        frame = Frame(head, self._requests, memoryview(bytearray(body)))
        return self._requests, self.handle(events.Request(session, frame))

    def body_of(self, effect: events.Answer | events.LinkSend) -> bytes:
        """The bytes that an answer or a frame to a peer would carry."""
        return b"".join(
            self.store.read(part) if isinstance(part, Extent) else part for part in effect.body
        )

    def queues(self, session: int) -> list[QueueInfo]:
        """All queues as they stand."""
        found: list[QueueInfo] = []
        following = 0
        while True:
            head, _ = self.ask(session, queue_frames.ListQueues(following))
            assert isinstance(head, queue_frames.QueueList)
            found += head.queues
            following = head.next
            if not following:
                return found

    def number(self, session: int, name: str) -> int:
        """The number of a queue; a journal's or an outgoing queue's is made if it has to be."""
        head, _ = self.ask(session, queue_frames.OpenQueue(name))
        assert isinstance(head, queue_frames.Opened)
        return head.number

    def messages(
        self, session: int, queue: int, *, transaction: int = 0, count: int = 10_000, peek: bool
    ) -> list[Seen]:
        """Receive or look at messages; nothing if there is none."""
        head = message_frames.Receive(queue, transaction, 0.0, count, peek=peek, guarded=False)
        try:
            answer, body = self.ask(session, head)
        except ReceiveTimeout:
            return []
        assert isinstance(answer, message_frames.Messages)
        return seen_in(answer, body)


@contextmanager
def refused_exactly(wanted: str) -> Iterator[None]:
    """Take a refusal that says so; raises `BrokenPromiseError` for any other, and for none.

    Nothing wanted is no refusal wanted.
    """
    try:
        yield
    except DrayError as refused:
        if not wanted or wanted not in f"{refused.code}: {refused}":
            raise BrokenPromiseError(f"refused: {refused}; expected was {wanted!r}") from refused
    else:
        if wanted:
            raise BrokenPromiseError(f"nothing was refused, though {wanted}")


def seen_in(head: message_frames.Messages, body: bytes) -> list[Seen]:
    """The messages of an answer; raises `BrokenPromiseError` for one that is damaged."""
    found, at = [], 0
    for envelope in head.envelopes:
        record = body[at : at + envelope.length]
        at += envelope.length
        if crc32c.crc32c(record) != envelope.crc:
            raise BrokenPromiseError(f"the message at position {envelope.lookup_id} is damaged")
        header = read_header(record)
        key = (header.source.hex(), header.number)
        found.append(Seen(key, envelope.lookup_id, record, envelope.message_class))
    return found
