"""Worlds that ask for everything, and proof that they notice when a defence is out."""

from __future__ import annotations

from collections import Counter

import pytest

from dray.delivery.confirmation import Outbox
from dray.delivery.incoming import IncomingStreams, Position
from dray.delivery.outgoing import OutgoingStream
from dray.manager.change import departures
from dray.manager.peers import Links
from dray.manager.state.awaiting import Awaiting
from dray.manager.untold_ends import UntoldEnds
from dray.model.classes import Acknowledge, MessageClass
from dray.testing.promises import BrokenPromiseError
from tests.simulation.hash_seeds import digests_of
from tests.worlds.manager_plan import Plan, swarm_plan
from tests.worlds.manager_world import ManagerWorld, swarm_world
from tests.worlds.network import Faults
from tests.worlds.world import Chances

LARGE, SWARM = 50, 200
"""Worlds of a block: enough to reach every end."""
CANARY_WORLDS = 300
RARE_CANARY_WORLDS = 3_000
"""For what one world in 150 or so notices."""
ENDS = (
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


def some_world_notices(world_of=swarm_world, worlds=CANARY_WORLDS):
    """Whether one of a few worlds breaks a promise; those behind it are not looked at."""
    for seed in range(worlds):
        try:
            world_of(seed).run()
        except BrokenPromiseError:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world_of", "seeds"),
    [
        (ManagerWorld, range(LARGE)),
        pytest.param(ManagerWorld, range(LARGE, 2 * LARGE), marks=pytest.mark.torture),
        (swarm_world, range(SWARM)),
    ],
    ids=["large", "more that are large", "swarm"],
)
def test_every_message_ends_once_and_its_sender_is_told_exactly_that(world_of, seeds, went_through):
    known = Counter()
    for seed in seeds:
        world = world_of(seed)
        world.run()
        known += world.message_ends.known
        went_through["worlds of managers in a swarm"] += 1
    reached = {end.name for end in ENDS} | {"kept unasked", "counted"}
    assert not reached - set(known), "the worlds do not reach every end"


_accepted, _admissible = IncomingStreams.accepted, IncomingStreams.admissible
_take = UntoldEnds.take


def accept_as_the_first(streams, key, *position):
    streams._positions[key] = Position()
    _accepted(streams, key, *position)


def admit_over_gaps(streams, key, sequence_id, _previous, numbers):
    return _admissible(streams, key, sequence_id, 0, numbers)


def trust_acks_of_other_sequences(stream, peer):
    return stream._position() < stream.base + peer.upto <= stream.last


def wants_link_only_to_send(stream):
    return stream._first_waiting() is not None


def tell_again(ends, now, reachable):
    """Give counts, and forget them not."""
    kept = {key: dict(counts) for key, counts in ends._counts.items()}
    found = _take(ends, now, reachable)
    for key, _ in found:
        ends._counts[key] = kept[key]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken",
    [
        [(OutgoingStream, "may_be_delivered", lambda *_: False)],
        [(OutgoingStream, "wants_link", property(wants_link_only_to_send))],
        [(departures, "KEEPERS", ())],
        [(Links, "say_ends", lambda _: None)],
        [
            (IncomingStreams, "admissible", lambda *_: 0),
            (IncomingStreams, "accepted", accept_as_the_first),
        ],
        [(IncomingStreams, "admissible", admit_over_gaps)],
        [(OutgoingStream, "_confirms", trust_acks_of_other_sequences)],
        [(Awaiting, "must_hear_first", lambda *_: False)],
        [(Outbox, "refused", lambda *_: 0)],
        [(UntoldEnds, "take", tell_again)],
    ],
    ids=[
        "certain of what is not",
        "deaf to late news",
        "journals told again",
        "ends not said",
        "accepts whatever comes",
        "accepts over gaps",
        "trusts acks of other sequences",
        "believes order acks before it knows what was refused",
        "does not say that it has refused something",
        "counts the same ends again",
    ],
)
def test_the_swarm_notices_when_a_defence_is_out(monkeypatch, broken):
    for target, name, instead in broken:
        monkeypatch.setattr(target, name, instead)
    monkeypatch.setattr("tests.worlds.world.STEPS_MAX", 15_000)
    assert some_world_notices()


def wants_to_be_told_of_doubts(asked, message_class, wanted_by=departures.wanted_by):
    if message_class == MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER:
        return bool(asked & Acknowledge.NEGATIVE_RECEIVE)
    return wanted_by(asked, message_class)


@pytest.mark.torture
@pytest.mark.parametrize(
    ("target", "name", "instead"),
    [
        (OutgoingStream, "began_anew", lambda _: None),
        (departures, "wanted_by", wants_to_be_told_of_doubts),
    ],
    ids=["doubts forgotten at a restart", "tells of doubts"],
)
def test_the_swarm_notices_at_length_when_a_defence_is_out(monkeypatch, target, name, instead):
    monkeypatch.setattr(target, name, instead)
    assert some_world_notices(worlds=RARE_CANARY_WORLDS)


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
        (323, "what was truncated at a manager that forwards was bridged by another's message"),
        (402, "the same, of a transaction that its own source had ended"),
        (3174, "what was staged for a queue that was deleted stayed counted"),
        (3053, "a refusal that had been held up ended what was sent since and was accepted"),
    ],
)
def test_a_seed_that_once_failed_stays_mended(seed, what_went_wrong):
    ManagerWorld(seed).run()


@pytest.mark.torture
def test_worlds_notice_when_a_manager_that_forwards_does_not_say_whose_transaction_ended(
    monkeypatch,
):
    monkeypatch.setattr("dray.manager.peers.transmission._truncated", lambda *_: [])
    assert some_world_notices(ManagerWorld, 2_000)


OVERTAKEN_QUESTIONS = Plan(
    names=("a", "b"),
    depot="",
    queues=("plain", "small", "passing"),
    acks_transactional=True,
    purges=False,
    jumps=0,
    senders=("a", "b"),
    receivers=("a",),
    transactions=4,
    pauses=False,
    moves=False,
    rejects=False,
    timed=0.5,
    life_s_max=3.0,
    partitions=0,
    struck_within_s=2.0,
    pace=0.3,
    linger_s=1.0,
    is_large=False,
    chances=Chances(kill=0, power=0, bad_sync=0),
    link_troubles=Faults(reordering=0.2, delay_s=0.02),
    client_troubles=Faults(disconnection=0.02, delay_s=0.001),
)


HELD_UP_NEWS = Plan(
    names=("a", "b", "c"),
    depot="",
    queues=("plain", "small", "passing"),
    acks_transactional=False,
    purges=True,
    jumps=0,
    senders=("a", "b"),
    receivers=("a", "b", "c"),
    transactions=4,
    moves=False,
    rejects=False,
    timed=0.0,
    life_s_max=3.0,
    prepares=False,
    skews=False,
    partitions=0,
    struck_within_s=2.0,
    pace=0.3,
    is_large=False,
    chances=Chances(kill=0.01, power=1.0, bad_sync=0),
    link_troubles=Faults(disconnection=0.1, stall=0.05, delay_s=0.02),
    client_troubles=Faults(delay_s=0.001),
)


@pytest.mark.parametrize(
    ("seed", "plan", "what_went_wrong"),
    [
        (
            2230,
            OVERTAKEN_QUESTIONS,
            "one question of a stream overtook another, and no order ack was believed any more",
        ),
        (
            5229,
            HELD_UP_NEWS,
            "what became of messages was heard behind an order ack that did not count",
        ),
    ],
)
def test_a_seed_of_the_swarm_that_once_failed_stays_mended(seed, plan, what_went_wrong):
    """Kept with their plans: the swarm may draw others one day."""
    ManagerWorld(seed, plan).run()


@pytest.mark.slow
def test_large_worlds_are_the_worlds_that_their_seeds_were_kept_for():
    """Their plans: what is drawn differently makes another world of every seed."""
    plans = [ManagerWorld(seed).plan for seed in (41, 63, 278, 283, 43, 116)]
    assert [(len(each.names), each.depot, each.remade, each.closes) for each in plans] == [
        (4, "b", False, False),
        (4, "a", True, False),
        (3, "a", False, False),
        (4, "", False, False),
        (4, "", False, False),
        (4, "a", False, False),
    ]


def test_the_swarm_has_large_worlds_and_every_size():
    plans = [swarm_plan(seed) for seed in range(500)]
    small = [each for each in plans if isinstance(each, Plan)]
    assert 5 <= len(plans) - len(small) <= 50
    assert {len(each.names) for each in small} == {2, 3, 4}
    assert all(
        any(sender != receiver for sender in each.senders for receiver in each.receivers)
        for each in small
    ), "somebody sends to another manager"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--swarm",)], ids=["large", "swarm"])
def test_a_seed_lives_the_same_world_under_any_hash_seed(options):
    digests = digests_of("tests.worlds.manager_world", 5, *options)
    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 16
