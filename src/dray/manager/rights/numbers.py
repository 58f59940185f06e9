"""Numbers of messages and transactions, which belong to the caller that they were leased to."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter

from dray.errors import TransactionSequence
from dray.manager.rights.queues import manages_all, require_destination
from dray.manager.rights.rights import Rights
from dray.manager.session import Session
from dray.model.ids import EXPRESS_OUTCOME, split_id
from dray.model.leases import in_one_lease
from dray.wire.record import HEADER_BYTES, read_header, read_properties

_SAID, _SAID_AT = struct.Struct("<Q4xH"), 32
"""The number of a record and how it is acknowledged, in its header (`wire/record.py`)."""
_NUMBER, _ACKNOWLEDGE = itemgetter(0), itemgetter(1)
_SIZES_KEPT = 64
"""Lengths of records of which the reader is kept, some 100 bytes each."""


def own_number(rights: Rights, session: Session, number: int) -> None:
    """Refuse a number that was not leased to the caller since the manager started.

    An upload that the session goes on with has its number from before.
    """
    if not rights.leases.belongs(number, session.caller.name) and (
        number not in session.transactions
    ):
        raise TransactionSequence(
            "the number was not leased to this caller; use one of a lease of its own",
            transaction_id=rights.context.state.transaction_id(number),
        )


def own_outcome(rights: Rights, session: Session, transaction_id: str) -> None:
    """Refuse to tell what became of a number of another caller.

    Nobody knows any more to whom an earlier start has leased a number. Nothing begins under it, so
    the answer ends nothing, and tells no more than whether the number has committed.
    """
    number = _number_in(rights, session, transaction_id)
    begun = rights.context.state.prepared.get(number) or rights.context.state.uploads.get(number)
    is_of_another = begun is not None and begun.caller != session.caller.name
    is_known = begun is not None or rights.leases.is_earlier(number)
    if number and (is_of_another or not is_known):
        own_number(rights, session, number)


def own_sequence(rights: Rights, session: Session, sequence_id: str) -> None:
    """Refuse the number of an upload of another caller; the handler knows those of before."""
    number = _number_in(rights, session, sequence_id)
    if number and not rights.leases.is_earlier(number):
        own_number(rights, session, number)


def _number_in(rights: Rights, session: Session, transaction_id: str) -> int:
    """The number in an id of this manager; 0 for another one, and for a caller that manages all."""
    manager, number = split_id(transaction_id)
    if manager != rights.context.state.manager_id or manages_all(rights, session):
        return 0
    return number & ~EXPRESS_OUTCOME


def check_records(rights: Rights, session: Session, sizes: Sequence[int], body: memoryview) -> None:
    """Refuse numbers of others, and acknowledgments to queues that the caller may not send to.

    Sizes that do not fit the body are the handler's to refuse. The loops are those of C: this runs
    for each message.
    """
    if not sizes or min(sizes) < HEADER_BYTES or sum(sizes) > len(body):
        return
    size, count = sizes[0], len(sizes)
    if sizes.count(size) == count:
        said = list(_said_every(size).iter_unpack(body[: count * size]))
    else:
        said = [_SAID.unpack_from(body, at) for at in accumulate(sizes[:-1], initial=_SAID_AT)]
    numbers = [*map(_NUMBER, said)]
    one_for_all = in_one_lease(min(numbers), max(numbers))
    for number in numbers[:1] if one_for_all else numbers:
        own_number(rights, session, number)
    if any(map(_ACKNOWLEDGE, said)):
        _acknowledgments(rights, session, sizes, body)


@lru_cache(maxsize=_SIZES_KEPT)
def _said_every(size: int) -> struct.Struct:
    """Reads the same of records that are equally long."""
    return struct.Struct(f"<{_SAID_AT}x{_SAID.format[1:]}{size - _SAID_AT - _SAID.size}x")


def _acknowledgments(
    rights: Rights, session: Session, sizes: Sequence[int], body: memoryview
) -> None:
    for offset in accumulate(sizes[:-1], initial=0):
        properties = read_properties(body, read_header(body, offset), offset)
        if properties.administration_queue:
            require_destination(rights, session, properties.administration_queue)
