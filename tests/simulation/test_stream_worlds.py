"""The delivery cores in seeded worlds, and proof that the worlds would notice a missing defence."""

from __future__ import annotations

import pytest

from dray.delivery.events import Transmit
from dray.delivery.incoming import IncomingStreams, Position
from dray.delivery.outgoing import OutgoingStream
from tests.simulation.defences import enough_notice
from tests.simulation.hash_seeds import digests_of
from tests.worlds.stream_node import Canary
from tests.worlds.stream_world import StreamWorld

WORLDS = 300
CANARY_WORLDS = 80


class AcceptsEverything(IncomingStreams):
    """No predicate: whatever comes goes into the queue."""

    def admissible(self, *_frame):
        return 0

    def accepted(self, key, sequence_id, number, incarnation=0):
        self._positions[key] = Position()
        super().accepted(key, sequence_id, number, incarnation)


class IgnoresGaps(IncomingStreams):
    """Half a predicate: duplicates are refused, but the previous number is not looked at."""

    def admissible(self, key, sequence_id, _previous, numbers):
        return super().admissible(key, sequence_id, 0, numbers)


class ReusesSequenceIds(OutgoingStream):
    """Every new sequence has the id of the first."""

    def admitted(self, first, last, when_us):
        super().admitted(first, last, when_us)
        self.sequence_id = 1


class TrustsAcksOfOtherSequences(OutgoingStream):
    """Takes an order ack for what it looks like, whatever sequence it speaks of (KB 830639)."""

    def _confirms(self, peer):
        return self._position() < self.base + peer.upto <= self.last


class NeverRewritesPreviousNumbers(OutgoingStream):
    """Says the predecessor's number even if that message has expired."""

    def fill_window(self, event, now):
        return [
            each._replace(previous=each.lookup_ids[0] - each.base - 1)
            if isinstance(each, Transmit)
            else each
            for each in super().fill_window(event, now)
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "block", [0, *(pytest.param(each, marks=pytest.mark.torture) for each in (1, 2))]
)
def test_streams_deliver_exactly_once_in_order_through_every_trouble(block, went_through):
    for seed in range(block * WORLDS // 3, (block + 1) * WORLDS // 3):
        try:
            StreamWorld(seed).run()
        except Exception:
            print(f"\nrun it again: python -m tests.worlds.stream_world {seed}")
            raise
        went_through["worlds of streams"] += 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("canary", "share"),
    [
        (Canary(speak_first=True), 0.1),
        (Canary(incoming=AcceptsEverything), 0.5),
        (Canary(incoming=IgnoresGaps), 0.5),
        (Canary(outgoing=ReusesSequenceIds), 0.5),
        (Canary(outgoing=TrustsAcksOfOtherSequences), 0.5),
        (Canary(outgoing=NeverRewritesPreviousNumbers), 0.025),
    ],
    ids=["speak first", "accept all", "ignore gaps", "reuse ids", "trust acks", "no rewriting"],
)
def test_worlds_notice_when_a_defence_is_out(canary, share):
    least = share * CANARY_WORLDS
    assert enough_notice(lambda seed: StreamWorld(seed, canary).run(), CANARY_WORLDS, least)


@pytest.mark.slow
def test_a_seed_lives_the_same_world_under_any_hash_seed():
    digests = digests_of("tests.worlds.stream_world", 7)
    assert digests[0] == digests[1]
    assert len(digests[0].strip()) == 16
