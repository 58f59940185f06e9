"""For readers by position, such as Spark: how far a queue can be read, and what a range holds.

Nothing is taken. A reader plans only up to the first message that a transaction holds, since that
one may come back; what it has planned it reads and counts also if a transaction has taken it
meanwhile.

A range with limits ends where all transactions are closed, so that a reader tears none: at the last
such position within the limits, else at the first one within four times the limits. If there is
none, the range ends at the limits; nothing is held back.
"""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from itertools import accumulate, chain, islice
from typing import NamedTuple

from dray.delivery.receipts import Told
from dray.errors import Misuse
from dray.large.join import Assembly
from dray.manager.change import refuse_damaged
from dray.manager.context import Context
from dray.manager.disk import bodies_in
from dray.manager.entries import (
    ENTRY_BYTES,
    ORDINAL_BITS,
    entries_in,
    lengths_in,
    lookup_id_of,
    marks_of,
    part_of,
    place_in,
    plain_in,
    positions_in,
    transactions_in,
)
from dray.manager.notices import NoticeKind
from dray.manager.peers import judge_stated
from dray.manager.queue import StoredQueue
from dray.manager.session import Session
from dray.model.limits import (
    BATCH_MESSAGES_MAX,
    FRAME_BODY_BYTES_MAX,
    RANGE_LIMITS_TIMES,
    RANGE_PIECES_MAX,
    RANGE_RUNS_MAX,
)
from dray.wire.message_frames import MARK_LAST
from dray.wire.range_frames import (
    RANGE_ROW,
    ROW_ORDINAL_BITS,
    MeasureRange,
    RangeMeasured,
    RangePiece,
    RangeRead,
    ReadRange,
)
from dray.wire.record import HEADER_BYTES, read_header

assert ROW_ORDINAL_BITS == ORDINAL_BITS
_COUNT_BYTES = 4
_GIVEN_AT = 40
_FIELDS = (
    (33, 8, 8),  # transaction
    (41, 16, 8),  # sent
    (49, 24, 8),  # arrived
    (17, 32, 4),  # length
    (21, 36, 4),  # crc
    (17, _GIVEN_AT, _COUNT_BYTES),  # given: all of the record
    (69, 44, 4),  # ordinal, and what follows
    (74, 48, 2),  # message class
    (73, 50, 1),  # marks
)
"""The places of fields in an entry (`entries/layout.py`) and in a `RANGE_ROW`; their bytes."""
_COPIED = (
    *((8 - at, at) for at in range(8)),  # the position, which is big-endian in an entry
    *((entry_at + at, row_at + at) for entry_at, row_at, size in _FIELDS for at in range(size)),
)
_JOINED_AT_ONCE = 256
"""As many as a page of a queue has (`queue/entry_pages.py`)."""
_FINE_MESSAGES = 20_000
"""In a shorter queue pieces are cut between any two messages, in a longer one between pages."""


class _Step(NamedTuple):
    """Messages that are measured together: positions, bytes of each.

    `closed` says of each whether all transactions are closed behind it.
    """

    positions: list[int]
    sizes: list[int]
    closed: list[bool]

    def upto(self, count: int) -> _Step:
        """The first so many of them."""
        return _Step(self.positions[:count], self.sizes[:count], self.closed[:count])

    def behind(self, count: int) -> _Step:
        """The others."""
        return _Step(self.positions[count:], self.sizes[count:], self.closed[count:])


class _OpenTransactions:
    """Transactions that have begun and not ended, by route; at most one is open on each."""

    def __init__(self, context: Context) -> None:
        """Begin before the first message of a range."""
        self._routes = context.state.arrival_routes
        self._open: dict[int, int] = {}

    def behind(self, transaction: int, route: int, *, is_last: bool) -> bool:
        """Go over one message; whether all are closed behind it."""
        if is_last or not transaction:
            self._open.pop(route, None)
        else:
            self._open[route] = transaction
        return not self._open

    def at_end_of_queue(self) -> bool:
        """Whether all are closed of which no more comes."""
        return not any(self._routes.going(route) == each for route, each in self._open.items())


def handle_measure(context: Context, session: Session, request_id: int, head: MeasureRange) -> None:
    """Say how far the queue can be read."""
    queue = context.state.queues.numbered(head.queue)
    if not 0 <= head.pieces <= RANGE_PIECES_MAX:
        raise Misuse(f"pieces must be 0 to {RANGE_PIECES_MAX}, not {head.pieces}")
    if head.receipt:
        _judge_receipt(context, session, queue, head.receipt)
    held = _first_held(queue, head)
    barrier = 0 if head.planned else held
    stop = min((each for each in (head.upto, barrier - 1) if each > 0), default=0)
    if barrier == head.after + 1:
        first = last = 0
        pieces: list[RangePiece] = []
    elif head.pieces or head.max_messages or head.max_bytes:
        steps = _limited(_steps(context, queue, head, stop), head.max_messages, head.max_bytes)
        first = steps[0].positions[0] if steps else 0
        last = steps[-1].positions[-1] if steps else 0
        pieces = _joined(steps, max(1, head.pieces))
    else:
        first, last = _ends(queue, head, stop)
        pieces = []
    plain = len(queue.index) - queue.index.aside_count - queue.index.part_count
    gone = queue.gone_header_upto if head.large else queue.gone_upto
    receipt = context.state.identity.receipt()
    answer = RangeMeasured(queue.born, first, last, held, plain, pieces, gone, receipt)
    context.answer(session, request_id, answer)


def _judge_receipt(context: Context, session: Session, queue: StoredQueue, receipt: bytes) -> None:
    """Give all queues new births if a reader has positions that this store does not know of."""
    if judge_stated(context, receipt) is Told.BY_ANOTHER_COPY:
        sentence = (
            f"a reader by position ({session.caller}) has read what this store does not have: the"
            " data directory is an older copy, and messages that came here since are lost; all"
            " queues count as made again, so their readers end with queue-recreated"
        )
        context.notices.add(NoticeKind.OLDER_COPY, f"queue {queue.name}", sentence)


def handle_read(context: Context, session: Session, request_id: int, head: ReadRange) -> None:
    """Give the messages of a range, as many as fit a frame."""
    queue = context.state.queues.numbered(head.queue)
    if not 1 <= head.max_messages <= BATCH_MESSAGES_MAX:
        raise Misuse(f"max_messages must be 1 to {BATCH_MESSAGES_MAX}, not {head.max_messages}")
    packed = _within_frame(_readable(queue, head), head.max_messages, head.max_bytes)
    if head.bodies and packed:
        body, given = bodies_in(context.store, packed), None
        refuse_damaged(context, queue, packed, body, thorough=False)
    else:
        heads = [_head_of(context, each) for each in entries_in(packed)]
        body = (b"".join(heads),) if heads else ()
        given = [len(each) for each in heads]
    answer = RangeRead(queue.born, _rows(packed, given))
    context.answer(session, request_id, answer, body)


def _within_frame(runs: Iterator[bytes], max_messages: int, max_bytes: int) -> bytes:
    """As many messages as were asked for and fit one frame, but one at least."""
    room = min(max_bytes or FRAME_BODY_BYTES_MAX, FRAME_BODY_BYTES_MAX)
    found: list[bytes] = []
    count = total = 0
    for run in runs:
        some = run[: (max_messages - count) * ENTRY_BYTES]
        lengths = lengths_in(some)
        size = sum(lengths)
        if total + size > room:
            fit = bisect_right(list(accumulate(lengths, initial=total)), room) - 1
            found.append(some[: max(fit, int(not count)) * ENTRY_BYTES])
            break
        found.append(some)
        count, total = count + len(lengths), total + size
        if count == max_messages:
            break
    return b"".join(found)


def _readable(queue: StoredQueue, head: ReadRange) -> Iterator[bytes]:
    """The messages of a range by position, also those that are held; packed, many in one piece."""
    runs = _with_held(queue, head.after)
    if not queue.index.is_of_one_priority():
        runs = _in_longer_runs(runs, min(head.max_messages, _JOINED_AT_ONCE))
    for run in runs:
        wanted = run
        if head.upto and lookup_id_of(run[-ENTRY_BYTES:]) > head.upto:
            wanted = run[: bisect_right(list(positions_in(run)), head.upto) * ENTRY_BYTES]
        yield plain_in(wanted) if head.plain else wanted
        if len(wanted) < len(run):
            return


def _with_held(queue: StoredQueue, after: int) -> Iterator[bytes]:
    """The entries behind a position, also those that are held; packed, many in one piece."""
    behind = (each for each in queue.index.held_entries() if lookup_id_of(each) > after)
    held = deque(sorted(behind, key=lookup_id_of))
    for run in queue.index.runs_in_position_order(after):
        last = lookup_id_of(run[-ENTRY_BYTES:])
        inside = []
        while held and lookup_id_of(held[0]) < last:
            inside.append(held.popleft())
        merged = heapq.merge(entries_in(run), inside, key=lookup_id_of) if inside else (run,)
        yield b"".join(merged)
    if held:
        yield b"".join(held)


def _in_longer_runs(runs: Iterator[bytes], at_once: int) -> Iterator[bytes]:
    """The same entries, so many in one piece."""
    entries = chain.from_iterable(map(entries_in, runs))
    while some := list(islice(entries, at_once)):
        yield b"".join(some)


def _rows(packed: bytes, given: list[int] | None = None) -> bytes:
    """The rows of packed entries: one byte of all entries at a time, without an object a row.

    So many bytes are `given` of each record; without that, all of it.
    """
    rows = bytearray(len(packed) // ENTRY_BYTES * RANGE_ROW.size)
    for entry_at, row_at in _COPIED:
        rows[row_at :: RANGE_ROW.size] = packed[entry_at::ENTRY_BYTES]
    if given is not None:
        counts = struct.pack(f"<{len(given)}I", *given)
        for at in range(_COUNT_BYTES):
            rows[_GIVEN_AT + at :: RANGE_ROW.size] = counts[at::_COUNT_BYTES]
    return bytes(rows)


def _first_held(queue: StoredQueue, head: MeasureRange) -> int:
    """The first position of a range that a transaction holds; 0 if there is none."""
    if head.large:
        found = (each.first for each in queue.parts if each.held and each.first > head.after)
    else:
        found = (
            lookup_id_of(each)
            for each in queue.index.held_entries()
            if lookup_id_of(each) > head.after and not (head.plain and part_of(each))
        )
    return min(found, default=0)


def _runs(queue: StoredQueue, head: MeasureRange) -> Iterator[bytes]:
    """The entries of a range, packed, many in one piece."""
    if head.planned:
        runs = _with_held(queue, head.after)
    else:
        runs = queue.index.runs_in_position_order(head.after)
    for run in runs:
        if wanted := plain_in(run) if head.plain else run:
            yield wanted


def _ends(queue: StoredQueue, head: MeasureRange, stop: int) -> tuple[int, int]:
    """The first and the last position that can be read; a page of messages costs one step."""
    if head.large:
        positions = [each.first for each in _large_readable(queue, head.after, stop)]
        return (positions[0], positions[-1]) if positions else (0, 0)
    first = last = 0
    for run in _runs(queue, head):
        if stop and lookup_id_of(run[-ENTRY_BYTES:]) > stop:
            readable = [each for each in positions_in(run) if each <= stop]
            return (first or readable[0], readable[-1]) if readable else (first, last)
        first, last = first or lookup_id_of(run), lookup_id_of(run[-ENTRY_BYTES:])
    return first, last


def _steps(context: Context, queue: StoredQueue, head: MeasureRange, stop: int) -> Iterator[_Step]:
    """Measure readable messages page by page or one by one."""
    if head.large:
        yield from islice(_large_steps(context, queue, head.after, stop), RANGE_RUNS_MAX)
        return
    is_limited = bool(head.max_messages or head.max_bytes)
    fine = bool(head.pieces) and queue.index.available_count <= _FINE_MESSAGES
    opened = _OpenTransactions(context)
    step = _Step([], [], [])
    for run in islice(_runs(queue, head), RANGE_RUNS_MAX):
        yield from _one_by_one(step) if fine else (step,)
        positions = list(positions_in(run))
        closed = [
            opened.behind(transaction, route, is_last=bool(marks & MARK_LAST))
            for transaction, route, marks in (transactions_in(run) if is_limited else ())
        ]
        step = _Step(positions, list(lengths_in(run)), closed or [True] * len(positions))
        if stop and positions[-1] >= stop:
            step = step.upto(bisect_right(positions, stop))
            break
    else:
        if step.closed:
            step.closed[-1] |= opened.at_end_of_queue()
    yield from _one_by_one(step) if fine else (step,)


def _one_by_one(step: _Step) -> Iterator[_Step]:
    return (_Step([at], [size], [closed]) for at, size, closed in zip(*step, strict=True))


def _large_steps(context: Context, queue: StoredQueue, after: int, stop: int) -> Iterator[_Step]:
    opened = _OpenTransactions(context)
    step = None
    for assembly in _large_readable(queue, after, stop):
        if step is not None:
            yield step
        closed = opened.behind(
            assembly.transaction, assembly.route, is_last=_is_last(queue, assembly.last)
        )
        step = _Step([assembly.first], [assembly.size], [closed])
    if step is not None:
        if step.positions[-1] == max(each.first for each in queue.parts):
            step.closed[-1] |= opened.at_end_of_queue()
        yield step


def _large_readable(queue: StoredQueue, after: int, stop: int) -> Iterator[Assembly]:
    """The large messages behind a position that are decided, up to the first that is not."""
    for assembly in queue.parts:
        if assembly.first <= after:
            continue
        if not assembly.decided or (stop and assembly.first > stop):
            return
        yield assembly


def _is_last(queue: StoredQueue, position: int) -> bool:
    """Whether the message at a position is the last of its transaction."""
    entry = queue.index.find(position)
    return entry is not None and bool(marks_of(entry) & MARK_LAST)


def _limited(steps: Iterator[_Step], max_messages: int, max_bytes: int) -> list[_Step]:
    """Cut to the limits, but not to nothing, and to where all transactions are closed."""
    messages = size = 0
    within: list[_Step] = []
    rest: _Step | None = None
    for step in steps:
        count = _fitting(step, max_messages, max_bytes, messages=messages, size=size)
        if count:
            within.append(step.upto(count))
            messages, size = messages + count, size + sum(within[-1].sizes)
        if count < len(step.positions):
            rest = step.behind(count)
            break
    if not within:
        return []
    closed = _upto_closed(within)
    if closed or rest is None:
        return closed or within
    further: list[_Step] = []
    most = RANGE_LIMITS_TIMES * max_messages, RANGE_LIMITS_TIMES * max_bytes
    for step in chain([rest], steps):
        count = _fitting(step, *most, messages=messages, size=size)
        end = next((at for at in range(count) if step.closed[at]), None)
        if end is not None:
            return [*within, *further, step.upto(end + 1)]
        if count < len(step.positions):
            break
        further.append(step)
        messages, size = messages + count, size + sum(step.sizes)
    return within


def _fitting(step: _Step, max_messages: int, max_bytes: int, *, messages: int, size: int) -> int:
    """The number of a step that fit behind those measured before; at least one if none were."""
    count = len(step.positions)
    if max_messages:
        count = min(count, max(0, max_messages - messages))
    if max_bytes:
        sums = accumulate(step.sizes[:count], initial=size)
        count = sum(1 for each in islice(sums, 1, None) if each <= max_bytes)
    return count or int(not messages and bool(step.positions))


def _upto_closed(steps: list[_Step]) -> list[_Step]:
    """The same up to the last message behind which all transactions are closed, if there is one."""
    for index in reversed(range(len(steps))):
        step = steps[index]
        for at in reversed(range(len(step.closed))):
            if step.closed[at]:
                return [*steps[:index], step.upto(at + 1)]
    return []


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
