"""For readers by position, such as Spark: how far a queue can be read, and what a range holds.

Nothing is taken. A reader plans only up to the first message that a transaction holds, since that
one may come back; what it has planned it reads also if a transaction has taken it meanwhile.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

from dray.errors import Misuse
from dray.manager.change.quarantine import refuse_damaged
from dray.manager.context import Context
from dray.manager.disk.envelopes import bodies_in, envelopes_in
from dray.manager.queue.index import (
    ENTRY_BYTES,
    lengths_in,
    lookup_id_of,
    place_in,
    positions_in,
)
from dray.manager.queue.queues import StoredQueue
from dray.manager.requests.receiving import within_frame
from dray.manager.session import Session
from dray.model.limits import BATCH_MESSAGES_MAX, RANGE_PIECES_MAX, RANGE_RUNS_MAX
from dray.wire.frames import (
    MeasureRange,
    RangeMeasured,
    RangePiece,
    RangeRead,
    ReadRange,
)
from dray.wire.record import HEADER_BYTES, read_header

_FINE_MESSAGES = 20_000
"""In a shorter queue pieces are cut between any two messages, in a longer one between pages."""


class _Step(NamedTuple):
    """Messages that are measured together: positions, bytes of each."""

    positions: list[int]
    sizes: list[int]


def handle_measure(context: Context, session: Session, request_id: int, head: MeasureRange) -> None:
    """Say how far the queue can be read."""
    queue = context.state.queues.numbered(head.queue)
    if not 0 <= head.pieces <= RANGE_PIECES_MAX:
        raise Misuse(f"pieces must be 0 to {RANGE_PIECES_MAX}, not {head.pieces}")
    held = _first_held(queue, head.after, large=head.large)
    stop = min((each for each in (head.upto, held - 1) if each > 0), default=0)
    if held == head.after + 1:
        first = last = 0
        pieces: list[RangePiece] = []
    elif head.pieces or head.max_messages or head.max_bytes:
        steps = list(_limited(_steps(queue, head, stop), head.max_messages, head.max_bytes))
        first = steps[0].positions[0] if steps else 0
        last = steps[-1].positions[-1] if steps else 0
        pieces = _joined(steps, max(1, head.pieces))
    else:
        first, last = _ends(queue, head, stop)
        pieces = []
    plain = len(queue.index) - queue.index.aside_count - queue.index.part_count
    gone = queue.gone_header_upto if head.large else queue.gone_upto
    answer = RangeMeasured(queue.born, first, last, held, plain, pieces, gone)
    context.answer(session, request_id, answer)


def handle_read(context: Context, session: Session, request_id: int, head: ReadRange) -> None:
    """Give the messages of a range, as many as fit a frame."""
    queue = context.state.queues.numbered(head.queue)
    if not 1 <= head.max_messages <= BATCH_MESSAGES_MAX:
        raise Misuse(f"max_messages must be 1 to {BATCH_MESSAGES_MAX}, not {head.max_messages}")
    held = sorted(
        (each for each in queue.index.held_entries() if lookup_id_of(each) > head.after),
        key=lookup_id_of,
    )
    entries: Iterator[bytes] = heapq.merge(
        queue.index.in_position_order(head.after), held, key=lookup_id_of
    )
    if head.upto:
        entries = takewhile(lambda packed: lookup_id_of(packed) <= head.upto, entries)
    found = list(within_frame(entries, head.max_messages, head.max_bytes))
    packed = b"".join(found)
    if head.bodies and found:
        body, lengths = bodies_in(context.store, packed), list(lengths_in(packed))
        refuse_damaged(context, queue, found, body, thorough=False)
    else:
        heads = [_head_of(context, each) for each in found]
        body = (b"".join(heads),) if heads else ()
        lengths = [len(each) for each in heads]
    answer = RangeRead(queue.born, envelopes_in(packed), lengths)
    context.answer(session, request_id, answer, body)


def _first_held(queue: StoredQueue, after: int, *, large: bool) -> int:
    """The first position behind another that a transaction holds; 0 if there is none."""
    if large:
        found = (each.first for each in queue.parts if each.held and each.first > after)
    else:
        found = (each for each in queue.index.held_positions() if each > after)
    return min(found, default=0)


def _ends(queue: StoredQueue, head: MeasureRange, stop: int) -> tuple[int, int]:
    """The first and the last position that can be read; a page of messages costs one step."""
    if head.large:
        positions = [step.positions[0] for step in _large_steps(queue, head.after, stop)]
        return (positions[0], positions[-1]) if positions else (0, 0)
    first = last = 0
    for run in queue.index.runs_in_position_order(head.after):
        if stop and lookup_id_of(run[-ENTRY_BYTES:]) > stop:
            readable = [each for each in positions_in(run) if each <= stop]
            return (first or readable[0], readable[-1]) if readable else (first, last)
        first, last = first or lookup_id_of(run), lookup_id_of(run[-ENTRY_BYTES:])
    return first, last


def _steps(queue: StoredQueue, head: MeasureRange, stop: int) -> Iterator[_Step]:
    """What can be read, page by page or one by one."""
    if head.large:
        yield from islice(_large_steps(queue, head.after, stop), RANGE_RUNS_MAX)
        return
    fine = bool(head.pieces) and queue.index.available_count <= _FINE_MESSAGES
    for run in islice(queue.index.runs_in_position_order(head.after), RANGE_RUNS_MAX):
        positions, sizes = list(positions_in(run)), list(lengths_in(run))
        last = positions[-1]
        if stop and last > stop:
            positions = [each for each in positions if each <= stop]
            sizes = sizes[: len(positions)]
        if fine:
            yield from (_Step([at], [size]) for at, size in zip(positions, sizes, strict=True))
        elif positions:
            yield _Step(positions, sizes)
        if stop and last >= stop:
            return


def _large_steps(queue: StoredQueue, after: int, stop: int) -> Iterator[_Step]:
    """The large messages behind a position that are decided, up to the first that is not."""
    for assembly in queue.parts:
        if assembly.first <= after:
            continue
        if assembly.held or not assembly.decided or (stop and assembly.first > stop):
            return
        yield _Step([assembly.first], [assembly.size])


def _limited(steps: Iterator[_Step], max_messages: int, max_bytes: int) -> Iterator[_Step]:
    """The same, as far as the limits allow; the first message in any case."""
    messages = size = 0
    for step in steps:
        after = messages + len(step.positions), size + sum(step.sizes)
        if (max_messages and after[0] > max_messages) or (max_bytes and after[1] > max_bytes):
            count = 0
            for each in step.sizes:
                over = bool(max_messages) and messages + 1 > max_messages
                over |= bool(max_bytes) and size + each > max_bytes
                if over and messages:
                    break
                messages, size, count = messages + 1, size + each, count + 1
            if count:
                yield _Step(step.positions[:count], step.sizes[:count])
            return
        messages, size = after
        yield step


def _joined(steps: list[_Step], pieces: int) -> list[RangePiece]:
    """Join steps to pieces of about the same weight: bytes, and something for each message."""
    weights = [sum(step.sizes) + HEADER_BYTES * len(step.sizes) for step in steps]
    share = sum(weights) / pieces
    joined: list[RangePiece] = []
    upto = messages = size = 0
    reached = 0.0
    for step, weight in zip(steps, weights, strict=True):
        upto, messages, size = (
            step.positions[-1],
            messages + len(step.positions),
            size + sum(step.sizes),
        )
        reached += weight
        if reached >= share * (len(joined) + 1) and len(joined) < pieces - 1:
            joined.append(RangePiece(upto, messages, size))
            messages = size = 0
    if messages:
        joined.append(RangePiece(upto, messages, size))
    return joined


def _head_of(context: Context, packed: bytes) -> bytes:
    """The record of an entry up to its body."""
    extent, _ = place_in(packed)
    header = read_header(context.store.read(extent, length=HEADER_BYTES))
    return context.store.read(extent, length=HEADER_BYTES + header.properties_bytes)
