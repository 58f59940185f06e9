"""Plain and large messages: kept apart in users' queues, together in the manager's own."""

from __future__ import annotations

import pytest

from dray.errors import LargeMessageMixing, ReceiveTimeout
from dray.manager.mixing import check_plain_receive
from dray.model.classes import QueueKind
from dray.wire import frames

from .conftest import Desk
from .test_large_messages import send_large, take_large

DEAD = "system$;deadxact"


def large_dead_letter(desk: Desk) -> int:
    """A large message of four parts that is purged away; gives its sequence."""
    caller = desk.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 2, transaction, use_dead_letter_queue=True)
    caller.commit(transaction, 3)
    caller.call(frames.PurgeQueue(queue))
    return sequence


@pytest.mark.parametrize("kind", [QueueKind.PRIVATE, QueueKind.SUB])
def test_a_plain_receive_is_refused_where_users_send_large_messages(
    desk: Desk, kind: QueueKind
) -> None:
    caller = desk.session()
    queue, transaction = caller.create("files"), caller.number_for()
    aside = caller.open("files;aside")
    send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    if kind is QueueKind.SUB:
        for position in (1, 2, 3):
            caller.call(frames.Move(queue, position, aside, 0, guarded=False))
    with pytest.raises(LargeMessageMixing):
        caller.receive(aside if kind is QueueKind.SUB else queue)


@pytest.mark.parametrize("restarted", [False, True])
def test_parts_are_received_singly_from_the_dead_letters(desk: Desk, restarted: bool) -> None:
    large_dead_letter(desk)
    if restarted:
        desk.crash()
    caller = desk.session()
    dead = caller.open(DEAD)
    assert caller.receive(dead, max_messages=2)[1][1] == b"\x01"
    check_plain_receive(desk.manager._context.state.queues.named(DEAD))
    assert len(caller.receive(dead)[0]) == 2


@pytest.mark.parametrize("restarted", [False, True])
def test_a_large_message_among_the_dead_letters_is_still_whole(desk: Desk, restarted: bool) -> None:
    sequence = large_dead_letter(desk)
    if restarted:
        desk.crash()
    caller = desk.session()
    assert take_large(caller, caller.open(DEAD), caller.number_for()).sequence == sequence


def test_a_large_message_in_a_received_transaction_is_nobody_elses_meanwhile(desk: Desk) -> None:
    sequence = large_dead_letter(desk)
    caller, other = desk.session(), desk.session()
    dead, taking = caller.open(DEAD), caller.number_for()
    found = caller.call(frames.ReceiveTransaction(dead, taking, 0.0))
    assert isinstance(found, frames.TransactionMessages)
    assert len(found.envelopes) == 4
    with pytest.raises(ReceiveTimeout):
        take_large(other, dead, other.number_for())
    caller.call(frames.Abort(taking))
    assert take_large(other, dead, other.number_for()).sequence == sequence
