"""Rights at queues, by number, by name and by host; also those of managers that deliver.

A queue that a caller may not see does not exist for it: the refusal is the one of a missing queue.
"""

from __future__ import annotations

from dray.errors import AccessDenied, QueueNotFound, StatusQueueMissing
from dray.manager.change import seen_from_here
from dray.manager.queue import StoredQueue
from dray.manager.rights.rights import Rights
from dray.manager.session import Session
from dray.model.access import WHOLE, Verb
from dray.model.callers import Caller
from dray.model.classes import QueueKind
from dray.model.names import STATUS_QUEUE, QueueAddress, parse_queue_address

KEPT = frozenset({QueueKind.JOURNAL, QueueKind.SYSTEM})
"""Kinds of queues whose messages are read with the right `keep`."""
_READS = frozenset({Verb.PEEK, Verb.RECEIVE})


def allowed(rights: Rights, caller: Caller, verb: Verb, queue: StoredQueue) -> bool:
    """Whether a caller has a right at a queue."""
    may = rights.access.may
    if queue.outgoing and verb in (Verb.SEND, Verb.SEE):
        host = host_of(parse_queue_address(queue.name))
        if may(caller, Verb.FORWARD, host):
            return True
        return verb is Verb.SEE and may(caller, verb, queue.name)
    if verb in _READS and queue.kind in KEPT:
        verb = Verb.KEEP
    return may(caller, verb, queue.name)


def require(rights: Rights, session: Session, verb: Verb, queue: StoredQueue) -> None:
    """Refuse a caller that lacks a right at a queue; what it has is remembered at its session."""
    caller = session.caller
    key = (verb, queue.number)
    if caller.owner or key in session.granted:
        return
    if not allowed(rights, caller, verb, queue):
        if verb is not Verb.SEE and allowed(rights, caller, Verb.SEE, queue):
            raise denied(caller, f"{verb} at the queue {queue.name!r}")
        raise _gone()
    session.granted.add(key)


def require_at(rights: Rights, session: Session, verb: Verb, number: int) -> None:
    """Refuse a caller that lacks a right at the queue of a number; 0 is none.

    A queue that is not there is refused before anything else is looked at, as a hidden one is.
    """
    queue = rights.context.state.queues.get(number)
    if queue is not None:
        require(rights, session, verb, queue)
    elif number:
        raise _gone()


def is_missing(rights: Rights, head: object) -> bool:
    """Whether a frame has the number of a queue that is not there."""
    number = getattr(head, "queue", 0)
    return (
        isinstance(number, int) and number != 0 and rights.context.state.queues.get(number) is None
    )


def require_status_queue(rights: Rights, session: Session, number: int) -> None:
    """The manager uses the status queue on behalf of every receiver; another one needs rights."""
    queue = rights.context.state.queues.get(number)
    if not number or (queue is not None and queue.name == STATUS_QUEUE):
        return
    if queue is None or not allowed(rights, session.caller, Verb.SEE, queue):
        raise no_status_queue()
    require(rights, session, Verb.SEND, queue)
    require(rights, session, Verb.RECEIVE, queue)


def no_status_queue() -> StatusQueueMissing:
    """The refusal for a status queue that is not there, or that a caller may not see."""
    return StatusQueueMissing("the status queue has been deleted; create it anew", queue="")


def _gone() -> QueueNotFound:
    """The refusal for a number of a queue that is not there, or that a caller may not see."""
    return QueueNotFound("the queue has been deleted; open it again by name", queue="")


def may_see(rights: Rights, session: Session, queue: StoredQueue) -> bool:
    """Whether a caller may see a queue."""
    return session.caller.owner or allowed(rights, session.caller, Verb.SEE, queue)


def require_named(rights: Rights, session: Session, verb: Verb, name: str) -> None:
    """Refuse a caller that lacks a right at the queue of a name, if there is one."""
    address = str(seen_from_here(rights.context, name))
    queue = rights.context.state.queues.find(address)
    if queue is None:
        return
    try:
        require(rights, session, verb, queue)
    except QueueNotFound:
        raise not_found(address) from None


def require_seen(rights: Rights, session: Session, name: str) -> None:
    """Refuse a caller that may see no queue of a name; the same whether there is one or not."""
    if not rights.access.may(session.caller, Verb.SEE, name):
        raise not_found(name)


def not_found(name: str) -> QueueNotFound:
    """The refusal for a queue that is not there, or that a caller may not see."""
    hint = "connect to its own" if "://" in name else "create it first"
    return QueueNotFound(f"there is no queue {name!r} on this queue manager; {hint}", queue=name)


def require_host(rights: Rights, session: Session, address: QueueAddress) -> None:
    """Refuse a caller that may not have messages forwarded to a manager."""
    if not rights.access.may(session.caller, Verb.FORWARD, host_of(address)):
        raise denied(session.caller, f"forward to {host_of(address)}")


def require_whole(rights: Rights, session: Session, verb: Verb) -> None:
    """Refuse a caller that lacks a right at the whole queue manager."""
    if not rights.access.may(session.caller, verb, WHOLE):
        raise denied(session.caller, f"{verb} at the whole queue manager")


def manages_all(rights: Rights, session: Session) -> bool:
    """Whether a caller has the right `manage` at the whole queue manager."""
    return rights.access.may(session.caller, Verb.MANAGE, WHOLE)


def owns(rights: Rights, session: Session, name: str) -> bool:
    """Whether a session may go on with what the caller of a name began."""
    return session.caller.name == name or manages_all(rights, session)


def require_destination(rights: Rights, session: Session, name: str) -> None:
    """Refuse a caller that may not send to the queue of a name, here or at another manager."""
    address = seen_from_here(rights.context, name)
    if address.remote:
        require_host(rights, session, address)
        return
    if not rights.access.may(session.caller, Verb.SEND, address.local_name):
        if rights.access.may(session.caller, Verb.SEE, address.local_name):
            raise denied(session.caller, f"send to the queue {address.local_name!r}")
        raise not_found(address.local_name)


def denied(caller: Caller, act: str) -> AccessDenied:
    """The refusal of an act."""
    return AccessDenied(
        f"{caller.name} may not {act}; the owner of the queue manager can allow it with a rule"
        " ([[access]])"
    )


def host_of(address: QueueAddress) -> str:
    """The manager of an address, as rules name it: HOST:PORT."""
    return f"{address.host}:{address.port}"


def may_deliver(rights: Rights, session: Session, name: str) -> bool:
    """Whether the manager on a session may open a stream to the queue of a name."""
    address = parse_queue_address(name)
    may, caller = rights.access.may, session.caller
    if address.remote:
        return may(caller, Verb.FORWARD, host_of(address))
    return may(caller, Verb.DELIVER, address.local_name)


def require_delivery(rights: Rights, session: Session, name: str) -> None:
    """Refuse a stream: with `QueueNotFound` to a manager that may not even see its queue."""
    if may_deliver(rights, session, name):
        return
    address, caller = parse_queue_address(name), session.caller
    if address.remote:
        raise denied(caller, f"forward to {host_of(address)}")
    if rights.access.may(caller, Verb.SEE, address.local_name):
        raise denied(caller, f"deliver to the queue {address.local_name!r}")
    raise not_found(address.local_name)
