"""The manager's own half of a checkpoint: the state written down, and read again.

Length-prefixed MessagePack: first the manager, then queue after queue, each with its packed
entries. What is kept of incoming streams is the other half (`sequences.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from dray.delivery.events import StreamSnapshot
from dray.delivery.outgoing import OutgoingStream
from dray.manager.events import Peer
from dray.manager.facts import Prepared, QueueCreated, QuotaSet
from dray.manager.index import expiries_in
from dray.manager.outcomes import Outcomes
from dray.manager.queues import IndexBacklog, Queue
from dray.manager.unfinished import Upload
from dray.manager.ways import Way, Ways

if TYPE_CHECKING:
    from dray.manager.state import State

_encode = msgspec.msgpack.Encoder().encode


class _Manager(msgspec.Struct, array_like=True):
    """Everything but the queues."""

    manager_id: str
    name: str
    next_number: int
    next_queue: int
    committed: list[int]
    quotas_set: QuotaSet | None = None
    forgotten: list[tuple[int, int]] = []
    heard: list[tuple[int, int]] = []
    prepared: list[Prepared] = []
    certain_from: int = 0
    queue_files_kept: bool = False
    ways: list[Way] = []
    going: list[tuple[int, int]] = []
    uploads: list[Upload] = []


class _Queue(msgspec.Struct, array_like=True):
    """One queue."""

    created: QueueCreated
    next_lookup_id: int
    large_use: bool
    paused: bool
    entries: bytes
    stream: StreamSnapshot | None = None
    purge_pending: list[int] = []


def write_state(state: State) -> list[bytes]:
    """Write the state down, in pieces."""
    pieces: list[bytes] = []
    head = _Manager(
        state.manager_id,
        state.name,
        state.next_number,
        state.next_queue,
        state.outcomes.committed(),
        state.quotas_set,
        state.outcomes.forgotten(),
        list(state.heard.items()),
        list(state.prepared.values()),
        state.outcomes.certain_from,
        state.queue_files_kept,
        state.ways.state(),
        state.ways.going_state(),
        state.uploads.state(),
    )
    for item in (head, *map(_written, state.queues)):
        encoded = _encode(item)
        pieces += [len(encoded).to_bytes(8, "little"), encoded]
    return pieces


def read_state(state: State, snapshot: bytes) -> None:
    """Read what `write_state` wrote, into an empty state."""
    records = _cut(snapshot)
    head = msgspec.msgpack.decode(next(records), type=_Manager)
    state.manager_id, state.name = head.manager_id, head.name
    state.next_number, state.next_queue = head.next_number, head.next_queue
    state.outcomes = Outcomes(head.committed, head.forgotten, head.certain_from)
    state.queue_files_kept = head.queue_files_kept
    state.ways = Ways(head.ways, head.going)
    state.heard = dict(head.heard)
    state.uploads.restore(head.uploads)
    state.prepared = {each.transaction: each for each in head.prepared}
    if head.quotas_set is not None:
        state.apply(head.quotas_set)
    for encoded in records:
        _read_queue(state, msgspec.msgpack.decode(encoded, type=_Queue))


def _written(queue: Queue) -> _Queue:
    peer, remote = queue.route or (Peer("", 0), "")
    created = QueueCreated(
        queue.number,
        queue.name,
        str(queue.kind),
        queue.options,
        peer.host,
        peer.port,
        remote,
        queue.parent.number if queue.parent is not None else 0,
        peer.secure,
    )
    return _Queue(
        created,
        queue.next_lookup_id,
        queue.large_use,
        queue.paused,
        queue.index.durable(),
        queue.stream.state() if queue.stream is not None else None,
        sorted(queue.purge_pending),
    )


def _read_queue(state: State, record: _Queue) -> None:
    state.apply(record.created)
    queue = state.queues.numbered(record.created.number)
    queue.index.load(record.entries)
    for expires_us, lookup_id in expiries_in(record.entries):
        state.expiries.add(expires_us, queue.number, lookup_id)
    queue.next_lookup_id = record.next_lookup_id
    queue.large_use, queue.paused = record.large_use, record.paused
    queue.purge_pending.update(record.purge_pending)
    if record.stream is not None:
        backlog = IndexBacklog(queue.index)
        queue.stream = OutgoingStream.from_state(record.stream, backlog, state.delivery)
    state.ledger.stored[queue.account] += queue.index.byte_count


def _cut(snapshot: bytes) -> Iterator[memoryview]:
    view, at = memoryview(snapshot), 0
    while at < len(view):
        length = int.from_bytes(view[at : at + 8], "little")
        yield view[at + 8 : at + 8 + length]
        at += 8 + length
