"""A tiny real manager over a real store, so that the daemon can be tested without queues.

Commit        a fact, answered by Done once durable
Send          places its body; a fact; Done with the record's number. In a transaction: only places
SendFile      places its body like a Send, and answers at once with how long that was
CopyPart      has the range of the record whose number is `lookup_id` copied, or refuses: no offset
ReadPart      answers at once with the record whose number is `lookup_id`
Receive       answers with the record in `queue`, a fact that it is gone, and lets go of it
Describe      no fact, but a held answer
OpenQueue     dials the host and port in its name; PauseQueue hangs up
CreateQueue   sends the first record over the link to the host and port in its name, in stream 1
DescribeQueue sends the same and what follows it in a stream: AheadDropped, Passed, EndStream
Lease         raises something nobody foresaw; Outcome raises StoreFull, DeleteQueue StorePoisoned
Abort         closes the session after a last Done
"""

from __future__ import annotations

from dray.errors import StoreFull, StorePoisoned
from dray.manager.events import (
    Answer,
    CloseSession,
    Dial,
    Effect,
    Event,
    HangUp,
    Into,
    LinkSend,
    ManagerConfig,
    Peer,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.manager.notices import Notice
from dray.store.heap.heap import Extent
from dray.store.log.checkpoint import Snapshots
from dray.store.store import Store
from dray.wire import file_frames, frames, large_frames, message_frames, peer_frames, queue_frames
from dray.wire.stream import Frame


class EchoManager:
    id = "e" * 32
    name = "echo"
    knows_tokens = False

    def __init__(self, store: Store) -> None:
        self.store = store
        self.events: list[Event] = []
        self.records: list[Extent] = []
        self.wake_at: float | None = None
        self.fails_at: set[type] = set()
        self.facts: list[bytes] = []
        self.told: list[Notice] = []

    @classmethod
    def load(cls, store: Store, _config: ManagerConfig, _now: float) -> EchoManager:
        manager = cls(store)

        def rebuild(history):
            manager.facts = ([history.state] if history.state else []) + list(history.facts)
            return []

        store.recover(rebuild)
        return manager

    def hello(self, _peer: Peer) -> frames.Hello:
        return frames.Hello("manager", self.id, self.name)

    def deadline(self) -> float | None:
        return self.wake_at

    def notices(self) -> list[Notice]:
        told, self.told = self.told, []
        return told

    def snapshot(self) -> Snapshots:
        return Snapshots([b"everything"])

    def handle(self, event: Event, _now: float) -> list[Effect]:
        frame = getattr(event, "frame", None)
        kept = event if frame is None else event._replace(frame=_without_body(frame))
        self.events.append(kept)
        if type(event) in self.fails_at:
            raise ZeroDivisionError
        return self._request(event) if isinstance(event, Request) else []

    def count(self, kind: type) -> int:
        return sum(isinstance(event, kind) for event in self.events)

    @property
    def open_sessions(self) -> int:
        return self.count(SessionOpened) - self.count(SessionClosed)

    def _request(self, request: Request) -> list[Effect]:  # noqa: C901 - a table, one line a frame
        session, (head, number, body) = request
        match head:
            case message_frames.Commit():
                self.store.append(b"committed")
                return [Answer(session, number, frames.Done())]
            case message_frames.Send():
                self.records.append(self.store.place(body))
                if head.transaction:
                    return []
                self.store.append(b"placed")
                return [Answer(session, number, frames.Done(len(self.records) - 1))]
            case large_frames.ReadPart():
                extent = self.records[head.lookup_id]
                part = Extent(extent.file, extent.offset + head.offset, head.length)
                return [Answer(session, number, large_frames.Range(), (part,), held=False)]
            case file_frames.SendFile():
                self.records.append(self.store.place(body))
                return [Answer(session, number, frames.Done(len(body)), held=False)]
            case file_frames.CopyPart(offset=-1):
                return [Answer(session, number, frames.failure(StoreFull("no", file="")))]
            case file_frames.CopyPart():
                extent = self.records[head.lookup_id]
                whole = Extent(extent.file, extent.offset, head.offset + head.length)
                into = Into(head.at, head.offset)
                return [Answer(session, number, file_frames.Copied(), (whole,), False, into)]
            case message_frames.Receive():
                extent = self.records[head.queue]
                self.store.append(b"gone")
                self.store.release(extent)
                return [Answer(session, number, message_frames.Messages([]), (extent,))]
            case queue_frames.Describe():
                return [Answer(session, number, frames.Done(-1))]
            case queue_frames.OpenQueue(name):
                return [Dial(_peer(name)), Answer(session, number, frames.Done())]
            case queue_frames.PauseQueue(name):
                return [HangUp(_peer(name)), Answer(session, number, frames.Done())]
            case queue_frames.CreateQueue(name):
                body = tuple(self.records[:1])
                return [LinkSend(_peer(name), peer_frames.Data(1, 2, 3, []), body)]
            case queue_frames.DescribeQueue(name):
                body = tuple(self.records[:1])
                heads = [
                    peer_frames.Data(1, 2, 3, []),
                    peer_frames.AheadDropped(1, 2),
                    peer_frames.Passed(1, 2, 3, 4),
                    peer_frames.EndStream(1),
                ]
                return [
                    LinkSend(_peer(name), head, body if at == 0 else ())
                    for at, head in enumerate(heads)
                ]
            case frames.Lease():
                raise ZeroDivisionError
            case message_frames.Outcome():
                raise StoreFull("there is no room; make some", file="p1")
            case queue_frames.DeleteQueue():
                raise StorePoisoned("the disk is gone", file="p1")
            case message_frames.Abort():
                return [Answer(session, number, frames.Done()), CloseSession(session)]
        return []


def _peer(name: str) -> Peer:
    host, _, port = name.rpartition(":")
    return Peer(host, int(port))


def _without_body(frame: Frame) -> Frame:
    return frame._replace(body=memoryview(bytes(frame.body)))
