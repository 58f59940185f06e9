"""Worlds that ask for everything, and proof that they notice when a defence is out."""

from __future__ import annotations

from collections import Counter

import pytest

from dray.delivery.outgoing import OutgoingStream
from dray.manager import departures
from dray.manager.links import Links
from dray.model.classes import MessageClass
from dray.testing.fate_world import FateWorld
from dray.testing.shadow import BrokenPromiseError
from tests.simulation.hash_seeds import digests_of

WORLDS, BLOCKS = 150, 3
CANARY_WORLDS = 60


def some_world_notices(worlds=CANARY_WORLDS):
    """Whether one of a few worlds breaks a promise; those behind it are not looked at."""
    for seed in range(worlds):
        try:
            FateWorld(seed).run()
        except BrokenPromiseError:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_every_message_ends_once_and_its_sender_is_told_exactly_that(block):
    known = Counter()
    for seed in range(block * WORLDS // BLOCKS, (block + 1) * WORLDS // BLOCKS):
        world = FateWorld(seed)
        world.run()
        known += world.fates.known
    ends = (
        MessageClass.ACK_RECEIVE,
        MessageClass.NACK_BAD_DST_Q,
        MessageClass.NACK_REACH_QUEUE_TIMEOUT,
        MessageClass.NACK_Q_EXCEED_QUOTA,
        MessageClass.NACK_NOT_TRANSACTIONAL_Q,
        MessageClass.NACK_Q_PURGED,
        MessageClass.NACK_RECEIVE_TIMEOUT,
        MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER,
        MessageClass.NACK_RECEIVE_REJECTED,
    )
    assert not {end.name for end in ends} - set(known), "the worlds do not reach every end"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "name", "broken"),
    [
        (OutgoingStream, "may_be_delivered", lambda *_: False),
        (OutgoingStream, "wants_link", property(lambda self: self._first_waiting() is not None)),
        (departures, "_KEEPERS", ()),
        (Links, "say_ends", lambda _: None),
    ],
    ids=["certain of what is not", "deaf to late news", "journals told again", "ends not said"],
)
def test_worlds_notice_when_a_defence_is_out(monkeypatch, target, name, broken):
    monkeypatch.setattr(target, name, broken)
    monkeypatch.setattr("dray.testing.world.STEPS_MAX", 15_000)
    assert some_world_notices()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "what_went_wrong"),
    [
        (41, "a message that was put back expired twice, and was acknowledged twice"),
        (63, "the place of a message that expired twice was freed twice"),
        (278, "confirmations waited for a connection that nothing asked for any more"),
        (283, "the same, of a message that the source had given up in doubt"),
        (
            43,
            "the last of a transaction, and the first of its way, was refused: no way had a number",
        ),
        (116, "what a manager that forwards could only call in doubt was acknowledged as failed"),
        (323, "what ended short at a manager that forwards was bridged by another's message"),
        (402, "the same, of a transaction that its own source had ended"),
        (3174, "what was staged for a queue that was deleted stayed counted"),
        (3053, "a refusal that had been held up ended what was sent since and was accepted"),
    ],
)
def test_a_seed_that_once_failed_stays_mended(seed, what_went_wrong):
    FateWorld(seed).run()


@pytest.mark.torture
def test_worlds_notice_when_a_manager_that_forwards_does_not_say_whose_transaction_ended(
    monkeypatch,
):
    monkeypatch.setattr(Links, "_ended_short", lambda *_: [])
    assert some_world_notices(2_000)


@pytest.mark.slow
def test_a_seed_lives_the_same_world_under_any_hash_seed():
    digests = digests_of("dray.testing.fate_world", 5)
    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 16
