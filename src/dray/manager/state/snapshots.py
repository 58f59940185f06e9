"""The manager's own half of a checkpoint: the state written down, and read again.

Length-prefixed MessagePack: first the manager, then queue after queue, each with its packed
entries. The state of incoming streams is the other half (`sequences.py`).

A checkpoint is drawn in two steps. The turn takes everything that must be consistent: all that is
small, and of each queue its pages of entries, which never change. The writing thread encodes and
writes the millions of entries, piece by piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from dray.delivery.events import StreamSnapshot
from dray.delivery.outgoing import OutgoingStream
from dray.manager.entries import ENTRY_BYTES, entries_in, expiries_in, is_express_entry
from dray.manager.events import Peer
from dray.manager.facts import BatchStaged, Prepared, QueueCreated, QuotaSet, decode_fact
from dray.manager.queue import ArrivalRoute, ArrivalRoutes, IndexBacklog, StoredQueue
from dray.manager.state.chunked_encoding import array_head, bytes_head, encode
from dray.manager.state.identity import IdentitySnapshot
from dray.manager.state.outcomes import BatchOutcome, BatchOutcomes, Outcomes
from dray.manager.state.state import State
from dray.manager.state.stream_ends import StreamEnd
from dray.manager.state.unfinished import Upload
from dray.store.log.checkpoint import Snapshots
from dray.store.recovery.recovery import History

_LENGTH_BYTES = 8


class _Manager(msgspec.Struct, array_like=True):
    """Everything but the queues."""

    manager_id: str
    name: str
    next_number: int
    next_queue: int
    committed: list[int]
    quotas_set: QuotaSet | None
    forgotten: list[tuple[int, int]]
    heard: list[tuple[int, int]]
    prepared: list[Prepared | BatchStaged]
    certain_from: int
    queue_files_kept: bool
    routes: list[tuple[int, ArrivalRoute]]
    going: list[tuple[int, int]]
    uploads: list[Upload]
    stream_ends: list[StreamEnd]
    identity: IdentitySnapshot
    positions_from: int
    last_route: int
    batches: list[tuple[str, list[BatchOutcome]]] = []


class _Queue(msgspec.Struct, array_like=True):
    """One queue."""

    created: QueueCreated
    next_lookup_id: int
    paused: bool
    gone_upto: int
    gone_header_upto: int
    entries: bytes
    stream: StreamSnapshot | None
    purge_pending: list[int]
    truncated: list[tuple[int, int]]


class _QueueTaken(NamedTuple):
    """A queue as it was at one moment: all but its entries, and where these are."""

    record: _Queue
    pages: list[bytes]
    others: list[bytes]
    """Single entries that are in no page, in any order."""
    express: int
    """The number of express messages among all these, which are left out."""


def take_snapshots(state: State) -> Snapshots:
    """Take the state as it is now, in its two halves."""
    return Snapshots(write_state(state), state.sequences.snapshot())


def replay(state: State, history: History) -> State:
    """Rebuild a state from the snapshots of its halves and the facts after each."""
    if history.state is not None:
        read_state(state, history.state)
        state.put_aside(frozenset())
    if history.sequences is not None:
        state.sequences.restore(history.sequences)
    for number, packed in enumerate(history.facts):
        fact = decode_fact(packed)
        if number >= history.in_state:
            state.apply_without_sequences(fact)
        if number >= history.in_sequences:
            state.sequences.apply(fact)
    return state


def write_state(state: State) -> Iterator[bytes]:
    """Take the state as it is now; it is written down piece by piece, when and where one asks."""
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
        state.arrival_routes.state(),
        state.arrival_routes.going_state(),
        state.uploads.state(),
        state.stream_ends.state(),
        state.identity.snapshot(),
        state.positions_from,
        state.arrival_routes.last,
        state.batch_outcomes.state(),
    )
    return _pieces(encode(head), [_taken(queue) for queue in state.queues])


def read_state(state: State, snapshot: bytes) -> None:
    """Read what `write_state` wrote, into an empty state."""
    records = _cut(snapshot)
    head = msgspec.msgpack.decode(next(records), type=_Manager)
    state.manager_id, state.name = head.manager_id, head.name
    state.next_number, state.next_queue = head.next_number, head.next_queue
    state.outcomes = Outcomes(head.committed, head.forgotten, head.certain_from)
    state.queue_files_kept = head.queue_files_kept
    state.arrival_routes = ArrivalRoutes(head.routes, head.going, head.last_route)
    state.heard.update(head.heard)
    state.uploads.restore(head.uploads)
    state.stream_ends.restore(head.stream_ends)
    if head.quotas_set is not None:
        # Before the identity, which counts each fact that is applied, and has counted this one.
        state.apply(head.quotas_set)
    state.identity.restore(head.identity)
    state.positions_from = head.positions_from
    state.batch_outcomes = BatchOutcomes(head.batches)
    state.prepared = {each.transaction: each for each in head.prepared}
    for encoded in records:
        _read_queue(state, msgspec.msgpack.decode(encoded, type=_Queue))


def _pieces(head: bytes, queues: list[_QueueTaken]) -> Iterator[bytes]:
    yield _length(len(head)) + head
    queues.reverse()
    while queues:
        yield from _queue_pieces(queues.pop())


def _queue_pieces(taken: _QueueTaken) -> Iterator[bytes]:
    """The encoding of a `_Queue`, though nobody ever has all its entries in a row."""
    *front, _, stream, purge_pending, truncated = msgspec.structs.astuple(taken.record)
    entries = len(taken.others) - taken.express
    size = sum(map(len, taken.pages)) + entries * ENTRY_BYTES
    before = array_head(len(front) + 4) + b"".join(map(encode, front)) + bytes_head(size)
    behind = encode(stream) + encode(purge_pending) + encode(truncated)
    yield _length(len(before) + size + len(behind)) + before
    for run in _runs(taken.pages, taken.others):
        if taken.express:
            yield b"".join([each for each in entries_in(run) if not is_express_entry(each)])
        else:
            yield run
    yield behind


def _runs(pages: list[bytes], others: list[bytes]) -> Iterator[bytes]:
    """Pages and single entries as one, in order; the lists are used up."""
    pages.reverse()
    others.sort(reverse=True)
    while pages:
        page = pages.pop()
        between = []
        while others and others[-1] < page[-ENTRY_BYTES:]:
            between.append(others.pop())
        yield b"".join(sorted([*entries_in(page), *between])) if between else page
    others.reverse()
    yield b"".join(others)


def _length(length: int) -> bytes:
    return length.to_bytes(_LENGTH_BYTES, "little")


def _taken(queue: StoredQueue) -> _QueueTaken:
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
        queue.born,
    )
    record = _Queue(
        created,
        queue.next_lookup_id,
        queue.paused,
        queue.gone_upto,
        queue.gone_header_upto,
        b"",
        queue.stream.state() if queue.stream is not None else None,
        sorted(queue.purge_pending),
        queue.truncated_transactions.state(),
    )
    return _QueueTaken(record, *queue.index.copied(), queue.index.express_count)


def _read_queue(state: State, record: _Queue) -> None:
    state.create(record.created)
    queue = state.queues.numbered(record.created.number)
    queue.index.load(record.entries)
    for expires_us, lookup_id in expiries_in(record.entries):
        state.expiries.add(expires_us, queue.number, lookup_id)
    queue.next_lookup_id = record.next_lookup_id
    queue.paused = record.paused
    queue.gone_upto, queue.gone_header_upto = record.gone_upto, record.gone_header_upto
    queue.purge_pending.update(record.purge_pending)
    queue.truncated_transactions.restore(record.truncated)
    if record.stream is not None:
        backlog = IndexBacklog(queue)
        queue.stream = OutgoingStream.from_state(record.stream, backlog, state.delivery)
    state.ledger.stored[queue.account] += queue.index.byte_count


def _cut(snapshot: bytes) -> Iterator[memoryview]:
    view, at = memoryview(snapshot), 0
    while at < len(view):
        start = at + _LENGTH_BYTES
        length = int.from_bytes(view[at:start], "little")
        yield view[start : start + length]
        at = start + length
