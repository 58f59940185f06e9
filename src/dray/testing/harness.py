"""A queue manager on a simulated disk, spoken to in frames, one request and its answer at a time.

No daemon, no sockets, no time: `ask` gives what the manager answered at once, durable or not. The
one who drives it decides when to sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import crc32c

from dray.manager import events
from dray.manager.turn import QueueManager
from dray.model.callers import OWNER
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


class Sizes(NamedTuple):
    """How small the files of a simulated store are: the smaller, the sooner everything happens."""

    heap_file_bytes: int = 16 << 10
    log_bytes: int = 24 << 10
    queue_files: bool = False
    express_bytes: int = 6 << 10


class RequestFailed(Exception):  # noqa: N818 - it is an answer
    """The manager answered Failed."""

    def __init__(self, failed: frames.Failed) -> None:
        """Keep the code."""
        super().__init__(f"{failed.error}: {failed.sentence}")
        self.error = failed.error


class Seen(NamedTuple):
    """One message that the manager showed."""

    key: Key
    lookup_id: int
    record: bytes
    message_class: int


class ManagerHarness:
    """One manager, from its start to its end."""

    def __init__(self, disk: Disk, sizes: Sizes) -> None:
        """Recover from `disk`."""
        self.store = Store(
            disk,
            heap_file_bytes=sizes.heap_file_bytes,
            log_bytes=sizes.log_bytes,
            queue_files=sizes.queue_files,
            express_bytes=sizes.express_bytes,
        )
        config = events.ManagerConfig(
            manager_id=MANAGER_ID, key=key_named("a"), name="torture", low_water_bytes=0
        )
        self.now = NOW
        self.manager = QueueManager.load(self.store, config, self.now)
        self.dialled: list[events.Dial] = []
        self.sent: list[events.LinkSend] = []
        self._sessions = 0
        self._requests = 0

    def handle(self, event: events.Event) -> list[events.Effect]:
        """Let the manager decide; what it wants of peers is kept."""
        effects = self.manager.handle(event, self.now)
        for effect in effects:
            if isinstance(effect, events.Dial):
                self.dialled.append(effect)
            elif isinstance(effect, events.LinkSend):
                self.sent.append(effect)
        return effects

    def open(self) -> int:
        """Open a session, before its Hello."""
        self._sessions += 1
        self.handle(events.SessionOpened(self._sessions, OWNER))
        return self._sessions

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
        """The answer to a request that is answered at once; raises `RequestFailed`."""
        answer = self.say(session, head, body)
        if answer is None:
            raise BrokenPromiseError(f"{type(head).__name__} was not answered")
        return answer.head, self.body_of(answer)

    def say(self, session: int, head: Head, body: bytes = b"") -> events.Answer | None:
        """Send a frame; the answer, if there is one. Raises `RequestFailed`."""
        self._requests += 1
        frame = Frame(head, self._requests, memoryview(body))
        for effect in self.handle(events.Request(session, frame)):
            if isinstance(effect, events.Answer) and effect.session == session:
                if isinstance(effect.head, frames.Failed):
                    raise RequestFailed(effect.head)
                return effect
        return None

    def body_of(self, answer: events.Answer) -> bytes:
        """The bytes that an answer would carry."""
        return b"".join(
            self.store.read(part) if isinstance(part, Extent) else part for part in answer.body
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
        except RequestFailed as refused:
            if refused.error == "receive-timeout":
                return []
            raise
        assert isinstance(answer, message_frames.Messages)
        return seen_in(answer, body)


@contextmanager
def refused_exactly(wanted: str) -> Iterator[None]:
    """Take a refusal that says so; raises `BrokenPromiseError` for any other, and for none.

    Nothing wanted is no refusal wanted.
    """
    try:
        yield
    except RequestFailed as refused:
        if not wanted or wanted not in str(refused):
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
