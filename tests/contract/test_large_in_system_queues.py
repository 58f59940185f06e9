"""Promises about large messages among dead letters and copies: both kinds can be received there."""

from __future__ import annotations

import random

import pytest

import dray

BODY = random.Random(3).randbytes(2500)
NOWHERE = "dray://127.0.0.1:9/nowhere"
DEAD = "system$;deadxact"
SECONDS = 100


def send_in_vain(face, manager, *, body=BODY):
    """A large message that no queue manager takes in time."""
    large = face.LargeMessageQueue(manager.queue(NOWHERE), fragment_size=1000)
    return large.send(body, use_dead_letter_queue=True, time_to_reach_queue=0.01)


def plain_in_vain(manager):
    return manager.queue(f"{NOWHERE}-either").send(
        b"plain", use_dead_letter_queue=True, time_to_reach_queue=0.01
    )


def from_dead(face, manager):
    large = face.LargeMessageQueue(manager.queue(DEAD))
    with large.receive(SECONDS) as message:
        return message.sequence_id, message.body()


def test_a_large_message_among_the_dead_letters_keeps_no_plain_one_back(house, face):
    manager = house.start()
    manager.create_queue("statusq")
    plain_in_vain(manager)
    assert manager.queue(DEAD).receive(SECONDS).body == b"plain"
    send_in_vain(face, manager)
    parts = [manager.queue(DEAD).receive(SECONDS) for _ in range(5)]
    assert b"".join(part.body for part in parts[1:-1]) == BODY
    plain_in_vain(manager)
    assert manager.queue(DEAD).receive(SECONDS).body == b"plain"


def test_a_large_message_is_received_whole_from_the_dead_letters(house, face):
    manager = house.start()
    manager.create_queue("statusq")
    sequence_id = send_in_vain(face, manager)
    assert from_dead(face, manager) == (sequence_id, BODY)
    send_in_vain(face, manager, body=b"second")
    plain_in_vain(manager)
    assert from_dead(face, manager)[1] == b"second"
    assert manager.queue(DEAD).receive(SECONDS).body == b"plain"
    assert manager.queue(DEAD).info().message_count == 0


def test_both_kinds_of_dead_letters_are_there_after_a_restart(house, face):
    manager = house.start()
    manager.create_queue("statusq")
    sequence_id = send_in_vain(face, manager)
    dead = manager.queue(DEAD)
    letters = dead.cursor()
    while letters.next(SECONDS).app_specific != -9999:
        pass
    plain_in_vain(manager)
    letters.next(SECONDS)
    manager = house.start()
    assert from_dead(face, manager) == (sequence_id, BODY)
    with manager.transaction() as transaction:
        assert manager.queue(DEAD).receive(SECONDS, transaction=transaction).body == b"plain"


def test_a_whole_transaction_with_a_large_message_is_received_from_the_dead_letters(house, face):
    manager = house.start()
    heavy = manager.create_queue("heavy")
    with manager.transaction() as transaction:
        face.LargeMessageQueue(heavy, fragment_size=1000).send(
            BODY, use_dead_letter_queue=True, transaction=transaction
        )
    heavy.purge()
    with manager.transaction() as transaction:
        found = manager.queue(DEAD).receive_transaction(SECONDS, transaction=transaction)
        assert b"".join(message.body for message in found.messages[1:-1]) == BODY
        transaction.abort()
    assert from_dead(face, manager)[1] == BODY


def test_copies_of_both_kinds_are_received_from_a_journal(house, face):
    manager = house.start()
    manager.create_queue("statusq")
    heavy = manager.create_queue("heavy", journal=True)
    face.LargeMessageQueue(heavy, fragment_size=1000).send(BODY)
    with face.LargeMessageQueue(heavy).receive(SECONDS) as message:
        assert message.body() == BODY
    manager = house.start()
    journal = manager.queue("heavy;journal")
    with face.LargeMessageQueue(journal).receive(SECONDS) as message:
        assert message.body() == BODY
    with pytest.raises(dray.ReceiveTimeout):
        journal.receive(0)
