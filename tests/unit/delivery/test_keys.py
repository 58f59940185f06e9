"""Keys of queue managers: who can prove what to whom, on which connection."""

from __future__ import annotations

import pytest

from dray.delivery.keys import KEY_BYTES, ConnectionKey, ManagerKey, id_of

A, B, C = (ManagerKey(letter * KEY_BYTES) for letter in (b"a", b"b", b"c"))


def connection(caller: ManagerKey, answerer: ManagerKey, count: int = 1) -> list[ConnectionKey]:
    """What both ends compute."""
    once, other_once = caller.once(7, count), answerer.once(9, count)
    found = [
        caller.calling(once, answerer.public, other_once),
        answerer.answering(other_once, caller.public, once),
    ]
    return [each for each in found if each is not None]


def test_the_id_of_a_manager_is_the_fingerprint_of_its_key():
    assert A.id == id_of(A.public) != B.id
    assert len(bytes.fromhex(A.id)) == 16


def test_both_ends_of_a_connection_prove_to_each_other_what_they_say():
    ours, theirs = connection(A, B)
    assert theirs.proves(ours.proof(b"said"), b"said")
    assert not theirs.proves(ours.proof(b"said"), b"something else")


@pytest.mark.parametrize("other", [(A, C), (C, B), (B, A)], ids=["to C", "from C", "back"])
def test_a_proof_does_not_hold_between_others(other):
    ours, theirs = connection(A, B)
    for end in connection(*other):
        assert not theirs.proves(end.proof(b"said"), b"said")
        assert not end.proves(ours.proof(b"said"), b"said")


def test_a_proof_does_not_hold_on_a_later_connection():
    ours, _ = connection(A, B)
    _, later = connection(A, B, count=2)
    assert not later.proves(ours.proof(b"said"), b"said")


def test_no_two_connections_have_the_same_number():
    numbers = {
        key.once(incarnation, count) for key in (A, B) for incarnation in (1, 2) for count in (1, 2)
    }
    assert len(numbers) == 8


@pytest.mark.parametrize("public", [b"", bytes(KEY_BYTES), A.public + b"x"])
def test_a_key_that_is_none_gives_no_secret(public):
    assert B.answering(B.once(1, 1), public, A.once(1, 1)) is None


def test_a_number_of_another_length_gives_no_secret():
    assert B.answering(B.once(1, 1), A.public, b"short") is None
