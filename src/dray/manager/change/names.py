"""Queues by name: found, or made when somebody first uses the name."""

from __future__ import annotations

from dray.errors import Misuse, QueueNotFound
from dray.manager.context import Context
from dray.manager.events import Peer
from dray.manager.facts import PositionsReserved, QueueCreated
from dray.manager.notices import NoticeKind
from dray.manager.queue import StoredQueue
from dray.model.classes import QueueKind
from dray.model.limits import QUEUES_MAX
from dray.model.names import QueueAddress, parse_queue_address, shown_host
from dray.model.queue import QueueOptions

_POSITION_BITS = 32


def resolve_queue(context: Context, name: str) -> StoredQueue:
    """Find the queue of a name; outgoing queues, journals and sub-queues are made when needed."""
    address = seen_from_here(context, name)
    if not address.remote:
        return _local(context, address)
    queue = context.state.queues.find(str(address))
    return queue or create_queue(context, address, QueueOptions(transactional=True))


def known_queue(context: Context, name: str) -> StoredQueue | None:
    """The queue that a message sent to a name goes into; None if there is none."""
    return context.state.queues.find(str(seen_from_here(context, name)))


def seen_from_here(context: Context, name: str) -> QueueAddress:
    """A name taken apart; the address of a queue of this manager's own is its plain name.

    While messages wait in an outgoing queue of that name, the name leads to them, and later
    messages join them: otherwise nobody could look at them, give them up or keep their order.
    """
    address = parse_queue_address(name)
    if not address.remote or not is_own(context, Peer(address.host, address.port)):
        return address
    queue = context.state.queues.find(str(address))
    if queue is not None and queue.route and is_own(context, queue.route.peer) and queue.index:
        return address
    return QueueAddress(address.queue, address.sub_queue)


def is_own(context: Context, peer: Peer) -> bool:
    """Whether others reach this queue manager at an address."""
    return peer._replace(secure=False) in context.state.identity.own_addresses


def _local(context: Context, address: QueueAddress) -> StoredQueue:
    queue = context.state.queues.find(address.local_name)
    if queue is not None or not address.sub_queue:
        return queue or context.state.queues.named(address.local_name)
    parent = context.state.queues.named(address.queue)
    is_journal = address.sub_queue.casefold() == "journal"
    return part_of(context, parent, QueueKind.JOURNAL if is_journal else QueueKind.SUB, address)


def journal_of(context: Context, queue: StoredQueue) -> StoredQueue:
    """The journal of a queue, made when it is first needed."""
    return queue.journal or part_of(
        context, queue, QueueKind.JOURNAL, QueueAddress(queue.name, "journal")
    )


def part_of(
    context: Context, queue: StoredQueue, kind: QueueKind, address: QueueAddress
) -> StoredQueue:
    """A queue's journal or a sub-queue, made when it is first needed."""
    if queue.kind is not QueueKind.PRIVATE:
        raise QueueNotFound(f"{queue.name!r} has no {kind}", queue=queue.name)
    if kind is QueueKind.SUB:
        # A journal is owed to its queue; sub-queues are as many as callers think of names.
        _check_room(context)
    number, name = context.state.next_queue, f"{queue.name};{address.sub_queue}"
    options = QueueOptions(transactional=queue.options.transactional)
    born = context.state.identity.next_birth(context.now_us)
    created = QueueCreated(
        number, name, str(kind), options,
        parent=queue.number, born=born, first_position=context.state.positions_from,
    )  # fmt: skip
    context.record(created)
    part = context.state.queues.numbered(number)
    if kind is QueueKind.SUB:
        _reserve_positions(context, part)
    return part


def create_queue(context: Context, address: QueueAddress, options: QueueOptions) -> StoredQueue:
    """Make a queue, durably."""
    state = context.state
    name = str(address)
    kind = QueueKind.OUTGOING if address.remote else QueueKind.PRIVATE
    _check_room(context)
    peer, remote = next_hop(context, address) if address.remote else (Peer("", 0), "")
    host, port, secure = peer
    created = QueueCreated(
        state.next_queue, name, str(kind), options, host, port, remote, secure=secure,
        born=state.identity.next_birth(context.now_us), first_position=state.positions_from,
    )  # fmt: skip
    context.record(created)
    return state.queues.named(name)


def _check_room(context: Context) -> None:
    if len(context.state.queues) >= QUEUES_MAX:
        raise Misuse(
            f"a queue manager has at most {QUEUES_MAX} queues and sub-queues; delete one first"
        )


def next_hop(context: Context, address: QueueAddress) -> tuple[Peer, str]:
    """The manager that an outgoing queue delivers to, and what it asks for there.

    Fixed when the queue is made: word of its messages comes back by the same route. A route over
    this manager itself, as where all managers have one table of routes, leads straight there.
    """
    goal = Peer(address.host, address.port, address.secure)
    via = context.config.routes.get(goal, goal)
    via = goal if is_own(context, via) else via
    return via, address.local_name if via == goal else str(address)


def routed_now(context: Context, queue: StoredQueue) -> str:
    """The destination in `routes`, if an outgoing queue keeps another route; else nothing."""
    assert queue.route is not None, "an outgoing queue has a route"
    via, _ = next_hop(context, parse_queue_address(queue.name))
    return "" if via == queue.route.peer else _place_of(via)


def _place_of(peer: Peer) -> str:
    return f"{shown_host(peer.host)}:{peer.port}"


def tell_of_kept_routes(context: Context) -> None:
    """Warn of outgoing queues that keep to other routes than `routes` say by now; name one."""
    outgoing = context.state.queues.outgoing()
    kept = [(queue, via) for queue in outgoing if (via := routed_now(context, queue))]
    for queue, via in kept[:1]:
        assert queue.route is not None, "an outgoing queue has a route"
        over = _place_of(queue.route.peer)
        others = f"; so do {len(kept) - 1} more (`dray outgoing show`)" if kept[1:] else ""
        sentence = (
            f"this outgoing queue delivers over {over} as when it was made, though `routes` lead"
            f" over {via} by now; once it is empty and no sender waits for word of what it has"
            f" delivered, delete it with `dray queue delete {queue.name}`, and the next message"
            f" makes it anew{others}"
        )
        context.notices.add(NoticeKind.AT_START, queue.name, sentence)


def _reserve_positions(context: Context, queue: StoredQueue) -> None:
    """Begin a new sub-queue's positions where no other one of its name has been."""
    first = queue.number << _POSITION_BITS
    context.record(PositionsReserved(queue.number, first, context.now_us))
