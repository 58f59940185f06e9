"""Failures of the original in the field (semantics 2.9), each with and without the defence.

A test that cannot fail proves nothing, so every defence is also taken out, and then the same story
must go wrong.
"""

from __future__ import annotations

import pytest

from dray.delivery.events import Diverged, LinkLost, OrderAcked, PeerState
from dray.delivery.incoming import IncomingStreams, StreamKey
from dray.delivery.outgoing import OutgoingStream
from dray.errors import ProtocolError
from tests.unit.delivery.sender import NOON_ID, NOON_US, Sender, sent

KEY = StreamKey("ab" * 16, 1)


class TrustsEveryAck(OutgoingStream):
    """KB 830639 unmended: an order ack is taken for what it looks like."""

    def _confirms(self, peer):
        return peer.upto > 0


class ForgetsAcks(OutgoingStream):
    """KB 290892 unmended: an order ack is not part of the durable state."""

    def state(self):
        state = super().state()
        return type(state)(state.stream, state.queue, state.sequence_id, state.base, state.last)


class NumbersByTheClockOfTheBackup(OutgoingStream):
    """Sequence ids that only count up from what the store remembers."""

    def admitted(self, first, last, _when_us):
        super().admitted(first, last, 0)


def deliver(incoming, sender, effects):
    """Hand the Data frames of some effects to a destination; give what it accepted."""
    accepted = []
    for previous, numbers in sent(effects):
        sequence_id = sender.stream.sequence_id
        start = incoming.admissible(KEY, sequence_id, previous, numbers)
        if start < len(numbers):
            incoming.accepted(KEY, sequence_id, numbers[-1])
        accepted += numbers[start:]
    return accepted


# KB 290892: the order ack was not kept over a sender's restart; what was delivered went to the
# dead-letter queue as undelivered.


def unacknowledged_after_restart(kind):
    sender = Sender(kind=kind)
    sender.admit(2)
    sender.connect()
    sender.ack(2)
    sender.restart()
    return sender.stream.last - sender.stream.floor


def test_an_order_ack_outlives_a_restart_of_the_sender():
    assert unacknowledged_after_restart(OutgoingStream) == 0


def test_without_durable_acks_delivered_messages_would_be_held_for_undelivered():
    assert unacknowledged_after_restart(ForgetsAcks) == 2


# KB 918343: an order ack went out before the receiver's store commit; after the rollback each side
# was right on its own and every later message was rejected for ever.


def accepted_after_receiver_rolled_back(*, rewrite):
    sender = Sender()
    sender.admit(4)
    sender.connect()
    sender.ack(2)
    sender.give(LinkLost())
    rolled_back = IncomingStreams()
    effects = sender.connect(*rolled_back.position(KEY))
    if not rewrite:
        effects = [
            each._replace(previous=each.lookup_ids[0] - each.base - 1)
            for each in effects
            if hasattr(each, "previous")
        ]
    return deliver(rolled_back, sender, effects)


def test_a_receiver_that_rolled_back_an_acknowledged_message_accepts_the_next_ones():
    assert accepted_after_receiver_rolled_back(rewrite=True) == [3, 4]


def test_without_rewritten_previous_numbers_it_would_reject_them_for_ever():
    assert accepted_after_receiver_rolled_back(rewrite=False) == []


# KB 830639: an ack for a sequence this computer never sent was processed (a cloned machine's).


@pytest.mark.parametrize("foreign", [PeerState(NOON_ID + 5, 2), PeerState(NOON_ID - 5, 2)])
def test_an_ack_of_an_unknown_sequence_is_ignored(foreign):
    sender = Sender()
    sender.admit(3)
    sender.connect()
    assert sender.give(foreign) == []
    assert sorted(sender.queue.lengths) == [1, 2, 3]
    assert sender.stream.counters.ignored_acks == 1


def test_an_ack_of_a_number_never_sent_is_ignored():
    sender = Sender()
    sender.admit(3)
    sender.connect()
    assert sender.ack(4) == []
    assert sorted(sender.queue.lengths) == [1, 2, 3]


def test_a_sender_that_trusted_every_ack_would_lose_messages():
    sender = Sender(kind=TrustsEveryAck)
    sender.admit(3)
    sender.connect()
    assert OrderAcked(2) in sender.give(PeerState(NOON_ID + 5, 2))
    assert sorted(sender.queue.lengths) == [3]


# SeqIDAtRestoreTime: after a restore, new messages under old numbers look like duplicates.


def accepted_after_restore(kind):
    """Back up an empty queue, deliver three sequences, restore, send one message."""
    incoming = IncomingStreams()
    sender = Sender(kind=kind)
    backup = sender.stream.state()
    for _ in range(3):
        effects = sender.admit(1)
        effects = effects if sent(effects) else sender.connect(*incoming.position(KEY))
        deliver(incoming, sender, effects)
        sender.ack(1)
    sender.stream = kind.from_state(backup, sender.queue, sender.settings)
    sender.last = 0
    sender.admit(1, when_us=NOON_US + 60_000_000)
    return deliver(incoming, sender, sender.connect(*incoming.position(KEY)))


def test_a_restored_sender_begins_a_sequence_that_the_peer_has_never_seen():
    assert accepted_after_restore(OutgoingStream) == [1]


def test_sequence_ids_that_only_count_up_would_collide_after_a_restore():
    assert accepted_after_restore(NumbersByTheClockOfTheBackup) == []


# Cloned machines and restored stores with messages still waiting: the peer is ahead.


def lost_to_a_peer_that_is_ahead(kind):
    sender = Sender(kind=kind)
    sender.admit(2)
    effects = sender.connect(NOON_ID, 5)
    return effects, [each for each in (1, 2) if each not in sender.queue.lengths]


def test_a_copied_sender_stops_and_keeps_its_messages():
    effects, lost = lost_to_a_peer_that_is_ahead(OutgoingStream)
    assert effects == [Diverged(NOON_ID, 5)]
    assert lost == []


def test_a_copied_sender_that_went_on_would_lose_what_it_numbers_again():
    incoming = IncomingStreams()
    incoming.accepted(KEY, NOON_ID, 5)
    sender = Sender()
    sender.admit(2)
    # The defence is out: the stream is told that the peer has nothing.
    assert deliver(incoming, sender, sender.connect(0, 0)) == []
    sender.admit(3)
    assert OrderAcked(5) in sender.ack(5)
    assert sender.queue.lengths == {}


# KB 182121: after a restart messages went out in the order of their allocation.


class ByAllocation:
    """A backlog in the order in which its places were allocated, not in that of the commits."""

    def __init__(self, lengths):
        self.lengths = dict(sorted(lengths.items(), reverse=True))

    def after(self, lookup_id, /):
        return ((each, self.lengths[each]) for each in self.lengths if each > lookup_id)


def test_messages_leave_in_the_order_of_their_commits_after_a_restart():
    sender = Sender()
    sender.admit(5)
    sender.queue.lengths = dict(sorted(sender.queue.lengths.items(), reverse=True))
    sender.restart()
    assert sent(sender.connect()) == [(0, [1, 2, 3]), (3, [4, 5])]


def test_a_backlog_in_the_order_of_allocation_would_send_what_no_destination_accepts():
    sender = Sender()
    sender.admit(5)
    sender.queue = ByAllocation(sender.queue.lengths)
    sender.restart()
    with pytest.raises(ProtocolError):
        deliver(IncomingStreams(), sender, sender.connect())


# KB 186193: what was sent offline was discarded at the next start.


class KeepsNoBacklogOverARestart(OutgoingStream):
    """What was never sent is not part of the durable state."""

    def state(self):
        state = super().state()
        return type(state)(state.stream, state.queue, state.sequence_id, state.base, state.base)


def delivered_though_sent_offline(kind):
    sender = Sender(kind=kind)
    sender.admit(2)
    sender.restart()
    sender.restart()
    return sent(sender.connect()) if sender.stream.wants_link else []


def test_messages_sent_offline_are_kept_over_restarts_until_the_peer_is_there():
    assert delivered_though_sent_offline(OutgoingStream) == [(0, [1, 2])]


def test_a_stream_that_forgot_its_backlog_in_a_restart_would_never_deliver_it():
    assert delivered_though_sent_offline(KeepsNoBacklogOverARestart) == []


# KB 898618, messages to a queue that does not exist: tests/unit/manager/test_field_failures.py.
