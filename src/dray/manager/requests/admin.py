"""Greetings, and requests about whole queues or about the manager itself."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import msgspec

from dray.delivery.events import Paused, Unpaused
from dray.errors import (
    AccessDenied,
    Misuse,
    ProtocolError,
    QueueExists,
    QueueNotFound,
    StatusQueueMissing,
)
from dray.large.digests import DIGEST_KIND_DEFAULT, DIGESTS
from dray.manager.change import (
    begin_use_of_queue,
    check_outgoing_share,
    check_queue_share,
    create_queue,
    give_up_outgoing,
    give_up_unreadable,
    held_by_route,
    journal_of,
    leave_all,
    note_ends,
    note_queues_made,
    queues_used_by,
    resolve_queue,
    seen_from_here,
)
from dray.manager.context import Context
from dray.manager.entries import any_asks_in, copies_of, entries_in, lookup_id_of
from dray.manager.facts import BatchStaged, QueueDeleted, QueuePaused, QuotaSet
from dray.manager.incoming import ArrivingStreams
from dray.manager.notices import NoticeKind
from dray.manager.peers import Links, greet_manager, welcome_with_proof
from dray.manager.queue import Account, StoredQueue
from dray.manager.requests.receiving import check_born
from dray.manager.rights import Rights, act_for, allowed, check_hello, may_see, take_token
from dray.manager.session import Session
from dray.manager.transactions import Transactions, drop_staged_for, staged_counts
from dray.model.access import Verb
from dray.model.arguments import no_sense
from dray.model.classes import MessageClass, QueueKind
from dray.model.ids import ManagerId
from dray.model.limits import ENDS_REMEMBERED_MAX, LABEL_CHARACTERS_MAX, SIZE_BYTES_MAX
from dray.model.names import QueueAddress, check_new_queue_name
from dray.model.queue import DeliveryInfo, ManagerInfo, QueueInfo, QueueOptions
from dray.wire import frames, queue_frames

_STATUS_QUEUE_LABEL = "status messages of large messages"
_TOO_MANY_ENDS = (
    f"more than {ENDS_REMEMBERED_MAX} outgoing queues were deleted while their destinations could"
    " not be reached: the destination of the oldest of these is never told, and keeps a little"
    " memory for it"
)


def handle_hello(rights: Rights, session: Session, request_id: int, head: frames.Hello) -> None:
    """Learn who calls; lease numbers to a client."""
    context = rights.context
    if head.role not in ("client", "manager"):
        raise ProtocolError(f"nobody here knows what a {head.role!r} is")
    if head.token:
        take_token(context, session, head.token)
    if head.caller:
        act_for(context, session, head.caller)
    check_hello(rights, session, head.role)
    if head.role == "manager":
        greet_manager(context, session, head)
    session.role = head.role
    session.peer_id = head.manager_id if head.role == "manager" else ""
    first, count = rights.lease(session.caller.name) if head.role == "client" else (0, 0)
    welcome = frames.Welcome(
        context.state.manager_id,
        context.state.name,
        context.config.version,
        session.number,
        first,
        count,
        takes_files=head.role == "client",
    )
    if head.role == "manager":
        welcome = welcome_with_proof(context, session, head, welcome)
    context.answer(session, request_id, welcome)


def handle_lease(rights: Rights, session: Session, request_id: int, _head: frames.Lease) -> None:
    """Lease more numbers."""
    rights.context.answer(session, request_id, frames.Leased(*rights.lease(session.caller.name)))


def handle_create(
    context: Context, session: Session, request_id: int, head: queue_frames.CreateQueue
) -> None:
    """Create a queue, durably."""
    name = check_new_queue_name(head.name)
    if len(head.options.label) > LABEL_CHARACTERS_MAX:
        raise Misuse(f"a label has at most {LABEL_CHARACTERS_MAX} characters")
    if head.options.digest is not None and head.options.digest not in DIGESTS:
        raise Misuse(
            f"a digest is one of {', '.join(sorted(DIGESTS))}, not {head.options.digest!r}"
        )
    _check_quota("quota", head.options.quota, lowest=0)
    _check_quota("journal_quota", head.options.journal_quota, lowest=0)
    queue = context.state.queues.find(name)
    if queue is None:
        check_queue_share(context, session.caller)
        first = context.state.next_queue
        queue = create_queue(context, QueueAddress(name), head.options)
        if queue.options.journal:
            journal_of(context, queue)
        note_queues_made(context, session.caller, first)
    elif not head.exist_ok:
        raise QueueExists(f"there is already a queue {queue.name!r}", queue=queue.name)
    else:
        _check_alike(queue, head.options)
    context.answer(session, request_id, queue_frames.QueueState(queue.info()))


def _check_alike(queue: StoredQueue, asked: QueueOptions) -> None:
    """Raise `QueueExists` if the queue is not transactional as asked, or lacks what is asked."""
    made = queue.options
    digest = made.digest or DIGEST_KIND_DEFAULT
    if asked.transactional != made.transactional:
        differs = "transactional" if made.transactional else "not transactional"
    elif asked.journal and not made.journal:
        differs = "without a journal"
    elif asked.digest not in (None, digest):
        differs = f"with the digest {digest}"
    else:
        return
    error = f"the queue {queue.name!r} exists, but {differs}; delete it, or ask for it as it is"
    raise QueueExists(error, queue=queue.name)


def handle_open(
    context: Context, session: Session, request_id: int, head: queue_frames.OpenQueue
) -> None:
    """Resolve a name; a remote one gets its outgoing queue when it is first used."""
    address = seen_from_here(context, head.name)
    is_tried = address.remote and context.state.queues.find(str(address)) is None
    if is_tried:
        check_outgoing_share(context, session)
    if context.state.queues.find(str(address)) is None:
        check_queue_share(context, session.caller)
    first = context.state.next_queue
    queue = (_status_queue if head.for_status else resolve_queue)(context, head.name)
    note_queues_made(context, session.caller, first)
    if is_tried:
        context.follow_up.tried.add(queue.number, session.caller.place)
    begin_use_of_queue(session, queue)
    options = queue.options
    opened = queue_frames.Opened(
        queue.number, queue.name, str(queue.kind), options.transactional, options.digest
    )
    context.answer(session, request_id, opened)


def _status_queue(context: Context, name: str) -> StoredQueue:
    """Find the queue of a name for status messages, or create it; raises `StatusQueueMissing`."""
    address = seen_from_here(context, name)
    if address.remote:
        raise StatusQueueMissing(
            f"{name!r} is on another queue manager and cannot be the status queue; name a queue of"
            " this one",
            queue=name,
        )
    known = context.state.queues.find(address.local_name)
    if known is None and not (context.config.create_status_queue or address.sub_queue):
        raise StatusQueueMissing(
            f"receiving large messages needs a transactional queue {name!r}, and this queue manager"
            " is configured not to create it (create_status_queue); create it yourself",
            queue=name,
        )
    try:
        if known is None and not address.sub_queue:
            options = QueueOptions(label=_STATUS_QUEUE_LABEL)
            return create_queue(context, QueueAddress(check_new_queue_name(name)), options)
        return resolve_queue(context, name)
    except Misuse as error:
        raise StatusQueueMissing(
            f"there is no status queue {name!r}, and it cannot be created: {error}", queue=name
        ) from error


def handle_describe_queue(
    links: Links, session: Session, request_id: int, head: queue_frames.DescribeQueue
) -> None:
    """Tell how a queue stands."""
    context = links.context
    queue = context.state.queues.named(str(seen_from_here(context, head.name)))
    info = msgspec.structs.replace(
        queue.info(),
        delivery=_delivery(links, session, queue),
        staged_count=staged_counts(context)[queue.number],
    )
    context.answer(session, request_id, queue_frames.QueueState(info))


def handle_list(
    links: Links, session: Session, request_id: int, head: queue_frames.ListQueues
) -> None:
    """Tell how a page of queues stands."""
    context = links.context
    staged = staged_counts(context)
    page, following = context.state.queues.page(head.after)
    infos = [
        msgspec.structs.replace(_info(links, session, queue), staged_count=staged[queue.number])
        for queue in page
        if may_see(links.rights, session, queue)
    ]
    context.answer(session, request_id, queue_frames.QueueList(infos, following))


def _info(links: Links, session: Session, queue: StoredQueue) -> QueueInfo:
    """The state of a queue, and why its destination refuses if it does."""
    info = queue.info()
    if queue.stream is None or queue.stream.refusals.current is None:
        return info
    return msgspec.structs.replace(info, delivery=_delivery(links, session, queue))


def _delivery(links: Links, session: Session, queue: StoredQueue) -> DeliveryInfo | None:
    """The state of delivery; the numbers by which one could speak of a stream need `manage`."""
    told = links.delivery_of(queue)
    if told is None or allowed(links.rights, session.caller, Verb.MANAGE, queue):
        return told
    return msgspec.structs.replace(told, sequence_id=0, next_number=0, last_ack=0)


def handle_delete(
    transactions: Transactions, session: Session, request_id: int, head: queue_frames.DeleteQueue
) -> None:
    """Delete a queue with its messages; those who wait at it are told."""
    context = transactions.context
    queue = context.state.queues.named(str(seen_from_here(context, head.name)))
    if queue.kind in (QueueKind.SYSTEM, QueueKind.JOURNAL):
        raise AccessDenied(f"{queue.name!r} belongs to the queue manager and cannot be deleted")
    check_born(queue, head.born, "nothing was deleted; look at the queue again")
    _check_nothing_prepared(context, [queue, *queue.sub_queues])
    transactions.works.carry_on(_delete(transactions, queue), (session, request_id))


def _delete(transactions: Transactions, queue: StoredQueue) -> Generator[None, None, frames.Done]:
    """Work: let go what is in a queue, then delete it."""
    context = transactions.context
    for each in (queue, *queue.sub_queues):
        yield from _let_go(context, each)
    if context.state.queues.get(queue.number) is not queue:
        raise QueueNotFound(f"queue {queue.name!r} has been deleted", queue=queue.name)
    _check_nothing_prepared(context, [queue, *queue.sub_queues])
    family = [queue, *queue.sub_queues, *([queue.journal] if queue.journal is not None else ())]
    _drop_uploads(transactions, family)
    drop_staged_for(transactions, {each.number for each in family})
    if queue.outgoing and len(context.state.stream_ends) >= ENDS_REMEMBERED_MAX:
        context.notices.add(NoticeKind.END_UNTOLD, queue.name, _TOO_MANY_ENDS)
    held = held_by_route((queue, *queue.sub_queues))
    # Routes are forgotten with the last message that came by them.
    for (each, route), count in held.items():
        note_ends(context, each, _why_deleted(queue), route=route, count=count)
    context.record(QueueDeleted(queue.number, context.now_us))
    for each in family:
        gone = QueueNotFound(f"queue {each.name!r} has been deleted", queue=each.name)
        for waiter in each.waiters:
            context.refuse(waiter.session, waiter.request_id, gone)
    return frames.Done()


def _let_go(context: Context, queue: StoredQueue) -> Iterator[None]:
    """Work: tell the senders of what is in a queue, if they asked for it, that it is deleted (R55).

    It tells of held messages too: their transaction cannot commit any more.
    """
    if queue.outgoing:
        yield from give_up_outgoing(context, queue)
    why = _why_deleted(queue)
    yield from give_up_unreadable(context, queue, queue.next_lookup_id, why)
    while asked := _that_ask(queue):
        yield from leave_all(context, queue, asked, why, held=True)
        if context.state.queues.get(queue.number) is not queue:
            return


def _that_ask(queue: StoredQueue) -> list[int]:
    """The positions of messages whose senders asked for a copy or an acknowledgment, in order."""
    runs = filter(any_asks_in, queue.index.runs())
    asking = [packed for run in runs for packed in entries_in(run) if copies_of(packed)]
    return list(map(lookup_id_of, sorted(asking)))


def _why_deleted(queue: StoredQueue) -> MessageClass:
    return MessageClass.NACK_PURGED if queue.outgoing else MessageClass.NACK_Q_DELETED


def _drop_uploads(transactions: Transactions, family: list[StoredQueue]) -> None:
    """Drop unfinished uploads: they have nowhere to go any more."""
    context = transactions.context
    numbers = {queue.number for queue in family}
    for upload in [each for each in context.state.uploads if each.queue in numbers]:
        transaction = transactions.open.get(upload.number)
        if transaction is not None:
            transactions.abort(transaction)


def _check_nothing_prepared(context: Context, family: list[StoredQueue]) -> None:
    """Refuse if a prepared transaction uses the queue: it must be able to commit."""
    numbers = {queue.number for queue in family}
    for prepared in context.state.prepared.values():
        if not isinstance(prepared, BatchStaged) and queues_used_by(prepared) & numbers:
            name = context.state.transaction_id(prepared.transaction)
            raise Misuse(
                f"{family[0].name!r} cannot be deleted: the prepared transaction {name} has sent to"
                " it or received from it; commit or abort that first"
            )


def handle_describe(
    links: Links,
    streams: ArrivingStreams,
    session: Session,
    request_id: int,
    _head: queue_frames.Describe,
    *,
    started: float,
) -> None:
    """Tell how the manager stands."""
    context = links.context
    counters = context.store.counters
    outgoing = [
        _info(links, session, queue)
        for queue in context.state.queues.outgoing()
        if may_see(links.rights, session, queue)
    ]
    info = ManagerInfo(
        id=ManagerId(context.state.manager_id),
        name=context.state.name,
        version=context.config.version,
        quota=context.state.ledger.limits[Account.COMPUTER],
        bytes_used=context.state.ledger.stored[Account.COMPUTER],
        journal_quota=context.state.ledger.limits[Account.JOURNAL],
        journal_bytes_used=context.state.ledger.stored[Account.JOURNAL],
        outgoing_queues=outgoing,
        uptime=context.now - started,
        syncs=counters.syncs,
        groups=counters.groups,
        heap_files=counters.heap_files,
        checkpoints=counters.checkpoints,
        pid=context.config.pid,
        express_memory=counters.express_memory,
        express_in_memory=counters.express_in_memory,
        ahead_bytes=streams.kept_ahead.total_bytes,
        disk_free=max(0, context.room.free),
        low_water=context.room.low_water,
        now=context.now,
    )
    context.answer(session, request_id, queue_frames.ManagerState(info))


def handle_pause(
    links: Links, session: Session, request_id: int, head: queue_frames.PauseQueue
) -> None:
    """Stop the delivery of an outgoing queue, or let it go on."""
    context = links.context
    queue = context.state.queues.named(str(seen_from_here(context, head.name)))
    if queue.stream is None:
        raise Misuse(
            f"{queue.name!r} is not an outgoing queue: it has no delivery to pause or resume"
        )
    if queue.paused != head.paused:
        context.record(QueuePaused(queue.number, head.paused))
        links.steer(queue, Paused() if head.paused else Unpaused())
    if not head.paused:
        links.dial_again(queue)
    context.answer(session, request_id, frames.Done())


def handle_set_quota(
    context: Context, session: Session, request_id: int, head: queue_frames.SetQuota
) -> None:
    """Set quotas while running; what is stored stays, also above the new limit (R65)."""
    if head.name:
        queue = context.state.queues.named(head.name)
        _check_has_quotas(queue)
        number, quota, journal_quota = queue.number, queue.quota, queue.options.journal_quota
    else:
        number, limits = 0, context.state.ledger.limits
        quota, journal_quota = limits[Account.COMPUTER], limits[Account.JOURNAL]
    _check_quota("quota", head.quota, lowest=queue_frames.SetQuota.KEPT)
    _check_quota("journal_quota", head.journal_quota, lowest=queue_frames.SetQuota.KEPT)
    wanted = _wanted(head.quota, quota), _wanted(head.journal_quota, journal_quota)
    context.record(QuotaSet(number, *wanted))
    context.answer(session, request_id, frames.Done())


def _check_quota(name: str, asked_for: int | None, *, lowest: int) -> None:
    if asked_for is not None and not lowest <= asked_for <= SIZE_BYTES_MAX:
        raise no_sense(name, "a number of bytes from 0 on, or None", asked_for)


def _wanted(asked_for: int | None, now: int | None) -> int | None:
    return now if asked_for == queue_frames.SetQuota.KEPT else asked_for


def _check_has_quotas(queue: StoredQueue) -> None:
    """Only of a queue with bytes and a limit of its own; others would keep one to no effect."""
    if queue.account is Account.EXEMPT:
        raise AccessDenied(f"no quota applies to {queue.name!r}: it is the queue manager's own")
    if queue.parent is not None:
        whose = "quota" if queue.counted is queue.parent else "journal quota"
        raise Misuse(f"{queue.name!r} is under the {whose} of {queue.parent.name!r}; set that")
