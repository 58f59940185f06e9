"""The transactions that go on in a stream, as its destination learns of them from what comes.

On each route at most one is open. It ends by its last message, by a message of another one of the
same origin, or by the word of its source (`Data.truncated`, `Passed`, `EndStream`).
"""

from __future__ import annotations

from dray.errors import ProtocolError
from dray.manager.context import Context
from dray.manager.incoming.arrival import Arrival, Judged
from dray.manager.queue import ArrivalRoute, StoredQueue
from dray.wire.message_frames import MARK_FIRST, MARK_LAST
from dray.wire.peer_frames import Data


def check_ends(head: Data) -> None:
    """Raise `ProtocolError` if a frame speaks of an origin that cannot be a manager."""
    for each in head.truncated:
        try:
            bytes.fromhex(each.origin)
        except ValueError as error:
            sentence = "a stream names an origin that is no manager's id"
            raise ProtocolError(sentence) from error


def follow_transactions(
    context: Context,
    queue: StoredQueue,
    arrival: Arrival,
    judged: list[Judged],
) -> tuple[list[tuple[str, int]], bool]:
    """Changes of open transactions: by origin, 0 for none any more.

    And whether one of them has ended without its last message: that may not enter, or never came.
    """
    before: dict[bytes, int] = {}
    after: dict[bytes, int] = {}
    cut_short: set[bytes] = set()
    routes = context.state.arrival_routes
    whole = MARK_FIRST | MARK_LAST
    any_going = routes.any_going
    ends = _ends_told(context, arrival, judged)

    def look_up(origin: bytes) -> None:
        if origin not in before:
            route = ArrivalRoute(arrival.key.source, arrival.key.stream, origin.hex(), queue.number)
            before[origin] = after[origin] = routes.going(routes.number(route))

    # A whole one alone changes nothing, unless it ends what was going on, before or in this frame.
    for at, _, why in judged:
        envelope, origin = arrival.head.envelopes[at], arrival.headers[at].source
        while ends and ends[-1][0] <= envelope.number:
            ended = ends.pop()[1]
            look_up(ended)
            if after[ended]:
                cut_short.add(ended)
                after[ended] = 0
        marks, transaction = envelope.marks, envelope.transaction
        if marks & whole == whole and not (any_going or after):
            continue
        if origin not in before:
            look_up(origin)
        if after[origin] not in (0, transaction):
            cut_short.add(origin)
        last = marks & MARK_LAST or not transaction
        after[origin] = 0 if last else transaction
        if last and why is not None and not marks & MARK_FIRST:
            cut_short.add(origin)
    # A transaction that began and was cut short here ends so; the next manager has to hear of it.
    changed = [
        (origin.hex(), going)
        for origin, going in after.items()
        if going != before[origin] or (origin in cut_short and not going)
    ]
    return changed, bool(cut_short)


def watch_ends(  # noqa: PLR0917 - what is known of one frame
    context: Context,
    queue: StoredQueue,
    arrival: Arrival,
    going: list[tuple[str, int]],
    judged: list[Judged],
) -> None:
    """Tell the large messages of a queue of ends that no message in it shows."""
    for at, _, why in judged:
        envelope = arrival.head.envelopes[at]
        if why is not None and envelope.marks & MARK_LAST:
            number = context.state.arrival_routes.number(arrival.route(at, queue))
            queue.parts.source_went_on(number, envelope.transaction, ended=True)
    for origin, transaction in going:
        route = ArrivalRoute(arrival.key.source, arrival.key.stream, origin, queue.number)
        number = context.state.arrival_routes.number(route)
        queue.parts.source_went_on(number, transaction, ended=not transaction)


def _ends_told(context: Context, arrival: Arrival, judged: list[Judged]) -> list[tuple[int, bytes]]:
    """The truncated transactions in a frame: numbers, falling, each with the origin.

    Not of numbers that were accepted before: the origin may have begun another one since.
    """
    head = arrival.head
    if not head.truncated:
        return []
    at = context.state.incoming.position(arrival.key)
    known = at.number if at.sequence_id == head.sequence_id else 0
    upto = head.envelopes[judged[-1][0]].number
    told = [
        (each.number, bytes.fromhex(each.origin or arrival.key.source))
        for each in head.truncated
        if known < each.number <= upto
    ]
    return sorted(told, reverse=True)
