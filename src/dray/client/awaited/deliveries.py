"""Waits until messages have arrived, by the acknowledgment messages that their sender asked for.

A large message asks for one with its trailer, which comes last. A destination that refuses an
earlier part of it, such as a full queue, leaves that part as a dead letter at the source; so an
arrival counts only when no part of the message is a dead letter.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Final, Literal

from dray.client.awaited.queue import Queue
from dray.client.connections.link import Link
from dray.errors import (
    ConnectionLost,
    DeliveryRefused,
    DeliveryTimeout,
    MessageNotFound,
    ReceiveTimeout,
)
from dray.model.classes import MessageClass
from dray.model.message import Message
from dray.model.names import DEAD_LETTER_QUEUES, parse_queue_address
from dray.model.queued import reason_of

Arrival = Literal["accepted", "received"]
_AT_ONCE: Final = 1_000
_NEGATIVE: Final = 0x8000
_OF_RECEIVE: Final = 0x4000
_BACKOFF_S: Final = (0.2, 10.0)
"""The first and the longest pause while the queue manager is away."""


async def wait_for_delivery(
    link: Link,
    ids: Iterable[str],
    administration_queue: str,
    *,
    until: Arrival,
    timeout: float | None,
) -> None:
    """See `Manager.wait_for_delivery`."""
    deadline = None if timeout is None else time.monotonic() + timeout
    acknowledgments = Queue(link, str(parse_queue_address(administration_queue)))
    waiting = dict.fromkeys(ids)
    pause = _BACKOFF_S[0]
    while waiting:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            told = await acknowledgments.receive_many(_AT_ONCE, timeout=left)
        except ReceiveTimeout as error:
            await check_parts(link, waiting)
            raise _late(list(waiting), timeout or 0.0, until) from error
        except ConnectionLost as error:
            # An acknowledgment stays in its queue until it is received.
            if not error.retryable or (left is not None and left <= pause):
                raise
            await link.runtime.arrives(Future(), pause)
            pause = min(2 * pause, _BACKOFF_S[1])
            continue
        pause = _BACKOFF_S[0]
        refused = _settle(waiting, told, until)
        if refused is not None:
            raise refusal_of(str(refused.correlation_id), refused.message_class)
        await check_parts(link, [str(each.correlation_id) for each in told])


def _settle(waiting: dict[str, None], told: Iterable[Message], until: Arrival) -> Message | None:
    """Strike off the messages that have arrived; give the first word of one that will not."""
    refused = None
    for each in told:
        if each.correlation_id not in waiting:
            continue
        arrived = has_arrived(each, until)
        if arrived is False:
            refused = refused or each
        elif arrived:
            del waiting[each.correlation_id]
    return refused


def has_arrived(told: Message, until: Arrival) -> bool | None:
    """Whether an acknowledgment says that its message has arrived; None if that is still open."""
    is_negative = bool(told.message_class & _NEGATIVE)
    is_of_receive = bool(told.message_class & _OF_RECEIVE)
    if is_negative and (until == "received" or not is_of_receive):
        return False
    return True if is_of_receive or until == "accepted" else None


async def check_parts(link: Link, ids: Iterable[str]) -> None:
    """Raise `DeliveryRefused` if a part of one of these large messages is a dead letter."""
    letters = Queue(link, DEAD_LETTER_QUEUES[1], guarded=False)
    if not (await letters.info()).message_count:
        return
    for id in ids:
        try:
            letter = await letters.peek_by_correlation_id(id, 0)
        except MessageNotFound:
            continue
        raise refusal_of(id, letter.message_class)


def refusal_of(id: str, message_class: MessageClass) -> DeliveryRefused:
    """The error for a message that was refused."""
    reason = reason_of(message_class)
    remedy = "" if ";" in reason else "; look at `dray deadletter list`"
    return DeliveryRefused(
        f"message {id} was refused: {reason}{remedy}", id=id, message_class=message_class
    )


def _late(ids: list[str], timeout_s: float, until: Arrival) -> DeliveryTimeout:
    count = f"{len(ids)} message{'s were' if len(ids) > 1 else ' was'}"
    return DeliveryTimeout(
        f"no acknowledgment has said within {timeout_s:g} s that {count} {until}, which can still"
        " arrive; do not send again, but look at `dray outgoing list`",
        ids=ids,
    )
