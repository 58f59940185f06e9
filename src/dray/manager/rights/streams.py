"""Rights of other managers: to bring messages to queues here, and to have them forwarded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.manager.rights.queues import denied, host_of, not_found
from dray.model.access import Verb
from dray.model.names import parse_queue_address

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.session import Session


def may_deliver(context: Context, session: Session, name: str) -> bool:
    """Whether the manager on a session may open a stream to the queue of a name."""
    address = parse_queue_address(name)
    may, caller = context.access.may, session.caller
    if address.remote:
        return may(caller, Verb.FORWARD, host_of(address))
    return may(caller, Verb.DELIVER, address.local_name)


def require_delivery(context: Context, session: Session, name: str) -> None:
    """Refuse a stream: with `QueueNotFound` to a manager that may not even see its queue."""
    if may_deliver(context, session, name):
        return
    address, caller = parse_queue_address(name), session.caller
    if address.remote:
        raise denied(caller, f"forward to {host_of(address)}")
    if context.access.may(caller, Verb.SEE, address.local_name):
        raise denied(caller, f"deliver to the queue {address.local_name!r}")
    raise not_found(address.local_name)
