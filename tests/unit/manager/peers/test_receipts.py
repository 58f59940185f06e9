"""Receipts: a destination learns by its own words, and by no lie, that it was put back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from dray.delivery.keys import ManagerKey
from dray.delivery.receipts import Receipt, write_receipt
from dray.manager.facts import Restored
from dray.manager.queue import ORDER_QUEUE
from dray.model.message import Message
from dray.testing.keyed_manager import id_named, key_named
from dray.wire import peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.selections import SelectAt
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver, Source
from tests.unit.manager.peers.test_copied_stores import (
    Clone,
    back_up,
    prepared,
    restore,
    send,
    state_of_outgoing_queue,
)
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair, bodies_at_destination

AT = ADDRESS.rpartition("/")[0]


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return prepared(tmp_path)


def born(driver: ManagerDriver, queue: str = "orders") -> int:
    described = driver.session().call(queue_frames.DescribeQueue(queue))
    assert isinstance(described, queue_frames.QueueState)
    return described.info.born


def warnings(driver: ManagerDriver) -> list[str]:
    return [each.kind for each in driver.manager.notices()]


def exchanged(pair: Pair, *bodies: bytes) -> None:
    """Send messages, and let the line break when all has been said."""
    send(pair, *bodies)
    pair.source.advance(60.0)
    pair.deliver()
    pair.cut()


def accepted(pair: Pair, tmp_path: Path, letter: str) -> None:
    """A healthy manager answers in the place of the destination, and a person accepts it."""
    pair.cut()
    path = tmp_path / letter
    new = not path.exists()
    pair.destination = ManagerDriver(path, letter)
    if new:
        pair.destination.session().create("orders")
    pair.destination.now = pair.source.now
    send(pair, b"waits for a person")
    pair.source.advance(60.0)
    pair.deliver()
    pair.source.session().call(queue_frames.AcceptPeer(AT))


def awaited(pair: Pair) -> int:
    """How many delivered messages wait at the source for word of what became of them."""
    return len(look_into(pair.source.manager).state.queues.numbered(ORDER_QUEUE).index)


def take_last(pair: Pair, count: int) -> None:
    """Programs receive the last messages at the destination, and leave the ones before them."""
    caller = pair.destination.session()
    queue = caller.open("orders")
    for envelope in caller.receive(queue, peek=True)[0][-count:]:
        caller.receive(queue, select=SelectAt(envelope.lookup_id))


class TestAnotherManager:
    """It is told nothing of what the manager before it has acknowledged or confirmed."""

    def test_an_accepted_manager_keeps_its_births_and_nobody_warns_of_an_older_copy(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        exchanged(pair, b"first", b"second")
        accepted(pair, tmp_path, "c")
        before = born(pair.destination)
        exchanged(pair, b"third")
        assert bodies_at_destination(pair) == [b"waits for a person", b"third"]
        assert born(pair.destination) == before
        assert warnings(pair.destination) == []
        assert "destination-behind" not in warnings(pair.source)

    def test_the_manager_before_is_told_nothing_of_the_one_after_it_either(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        first = pair.destination
        exchanged(pair, b"first")
        accepted(pair, tmp_path, "c")
        exchanged(pair, *(b"to the other %d" % n for n in range(9)))
        pair.destination = first
        send(pair, b"back")
        pair.source.advance(60.0)
        pair.deliver()
        before = born(first)
        pair.source.session().call(queue_frames.AcceptPeer(AT))
        exchanged(pair)
        assert bodies_at_destination(pair) == [b"first", b"back"]
        assert born(first) == before
        assert warnings(first) == []
        assert "destination-behind" not in warnings(pair.source)

    def test_word_of_a_message_makes_no_manager_answer_for_the_order_acks_of_another_one(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        """The manager before has confirmed a receive, and not accepted anything since."""
        first = pair.destination
        caller = pair.source.session()
        caller.send(caller.open(ADDRESS), Message(body=b"first", use_dead_letter_queue=True))
        exchanged(pair)
        accepted(pair, tmp_path, "c")
        exchanged(pair, b"to the other")
        pair.destination = first
        assert bodies_at_destination(pair) == [b"first"]
        pair.source.session().call(queue_frames.AcceptPeer(AT, id_named("b")))
        exchanged(pair)
        exchanged(pair)
        assert "destination-behind" not in warnings(pair.source)

    def test_the_same_manager_is_told_after_its_address_was_forgotten(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        back_up(pair.destination, tmp_path / "copy")
        exchanged(pair, b"lost")
        restore(pair.destination, tmp_path / "copy")
        pair.source.session().call(queue_frames.ForgetPeer(AT))
        exchanged(pair, b"new")
        assert warnings(pair.destination) == ["older-copy"]
        assert "destination-behind" in warnings(pair.source)


class TestAPersonDecides:
    """It holds at once, and nothing that both copies of a store may have sent is forgotten."""

    def test_the_connection_with_another_manager_ends(self, pair: Pair, tmp_path: Path) -> None:
        send(pair, b"first")
        pair.deliver()
        pair.source.session().call(queue_frames.AcceptPeer(AT, id_named("c")))
        exchanged(pair, b"second")
        assert bodies_at_destination(pair) == [b"first"]
        pair.destination = ManagerDriver(tmp_path / "c", "c")
        pair.destination.session().create("orders")
        exchanged(pair)
        assert bodies_at_destination(pair) == [b"second"]

    def test_the_connection_with_the_same_manager_stays(self, pair: Pair) -> None:
        send(pair, b"first")
        pair.deliver()
        line = pair.line
        known = look_into(pair.source.manager).state.identity.peers
        before = known[PEER].sent_in
        pair.source.session().call(queue_frames.AcceptPeer(AT, id_named("b")))
        assert known[PEER].sent_in == before > 0
        send(pair, b"second")
        pair.deliver()
        assert pair.line == line
        assert bodies_at_destination(pair) == [b"first", b"second"]

    @pytest.mark.parametrize(("letter", "caller"), [("c", "cert:depot"), ("d", "")])
    def test_the_certificate_of_a_manager_that_has_answered_is_known_when_it_is_accepted(
        self, pair: Pair, tmp_path: Path, letter: str, caller: str
    ) -> None:
        """Another one, which has not answered yet, shows its own when it does."""
        exchanged(pair, b"first")
        pair.shown = "cert:depot"
        pair.destination = ManagerDriver(tmp_path / "c", "c")
        exchanged(pair, b"second")
        pair.source.session().call(queue_frames.AcceptPeer(AT, id_named(letter)))
        known = look_into(pair.source.manager).state.identity.peers[PEER]
        assert (known.manager_id, known.caller) == (id_named(letter), caller)

    @pytest.mark.parametrize(
        "decision", [queue_frames.ForgetPeer(AT), queue_frames.AcceptPeer(AT, id_named("b"))]
    )
    @pytest.mark.parametrize("crash", [False, True], ids=["", "crash"])
    def test_a_message_that_was_sent_before_comes_once_though_a_copy_has_delivered_since(
        self, pair: Pair, tmp_path: Path, *, decision: Head, crash: bool
    ) -> None:
        """The source does not know whether it has arrived, so it waits for a person again."""
        exchanged(pair, b"both know")
        clone = Clone(pair, tmp_path)
        pair.source.crash()
        send(pair, b"true")
        pair.source.advance(60.0)
        while b"true" not in waiting_at_destination(pair):
            pair.deliver(upto=1)
        clone.takes_over()
        exchanged(pair, b"clone")
        clone.falls_silent()
        pair.source.session().call(decision)
        if crash:
            pair.source.crash()
        exchanged(pair)
        assert bodies_at_destination(pair) == [b"both know", b"true", b"clone"]
        assert state_of_outgoing_queue(pair) == ("diverged", 1)


def waiting_at_destination(pair: Pair) -> list[bytes]:
    caller = pair.destination.session()
    return caller.what_is_in("orders", peek=True)[1]


class TestOwnWords:
    """A store that was put back finds out, once for each time that it was put back."""

    def test_a_store_that_was_put_back_renews_its_births_once_over_any_number_of_starts(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        back_up(pair.destination, tmp_path / "copy")
        exchanged(pair, b"lost")
        restore(pair.destination, tmp_path / "copy")
        before = born(pair.destination)
        exchanged(pair)
        renewed = born(pair.destination)
        assert renewed > before
        for _ in range(3):
            pair.destination.crash()
            exchanged(pair)
        assert born(pair.destination) == renewed

    def test_a_restore_from_a_backup_is_no_second_birth_when_a_source_calls(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        """Also if the lost store had more starts than the backup knows."""
        back_up(pair.destination, tmp_path / "backup")
        pair.destination.crash()
        exchanged(pair, b"lost")
        restore(pair.destination, tmp_path / "backup")
        inside = look_into(pair.destination.manager)
        inside.record(Restored(1, int((pair.destination.now + 1) * 1_000_000)))
        pair.destination.store.sync()
        before = born(pair.destination)
        exchanged(pair, b"new")
        assert born(pair.destination) == before
        assert warnings(pair.destination) == ["older-copy"]

    def test_a_store_that_was_put_back_renews_its_births_later_than_the_lost_one_did(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        """Also by a clock that is behind, so that it does so once."""
        back_up(pair.destination, tmp_path / "copy")
        restored_us = int((pair.destination.now + 3_600) * 1_000_000)
        look_into(pair.destination.manager).record(Restored(0, restored_us))
        pair.destination.store.sync()
        exchanged(pair, b"lost")
        restore(pair.destination, tmp_path / "copy")
        exchanged(pair)
        assert look_into(pair.destination.manager).state.identity.restored_us > restored_us

    def test_a_store_that_was_put_back_finds_out_though_nothing_of_a_stream_is_lost(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        """A lost receive came after all that the stream had brought."""
        body = Message(body=b"kept", use_dead_letter_queue=True)
        caller = pair.source.session()
        caller.send(caller.open(ADDRESS), body)
        pair.deliver()
        back_up(pair.destination, tmp_path / "copy")
        assert bodies_at_destination(pair) == [b"kept"]
        pair.deliver()
        pair.cut()
        restore(pair.destination, tmp_path / "copy")
        before = born(pair.destination)
        exchanged(pair)
        assert born(pair.destination) > before

    def test_the_snapshot_of_a_running_store_is_no_later_state_of_itself(self, pair: Pair) -> None:
        exchanged(pair, b"first")
        before = born(pair.destination)
        for n in range(3):
            pair.destination.crash()
            exchanged(pair, b"more %d" % n)
        assert born(pair.destination) == before
        assert warnings(pair.destination) == []


class TestLies:
    """A caller that may deliver, and states whatever it likes."""

    @pytest.fixture
    def liar(self, pair: Pair) -> Source:
        return pair.destination.source(700, "z")

    def lies(self, pair: Pair) -> Iterator[bytes]:
        """All that the liar can get hold of, and what it can make of that."""
        last = look_into(pair.destination.manager).state.identity.incarnations[-1].number
        later = Receipt(last + (1 << 32), 1 << 40, 1 << 52)
        mine = write_receipt(ManagerKey(key_named("z")), later)
        true = look_into(pair.destination.manager).state.identity.receipt()
        yield mine
        yield true
        yield mine[:-16] + true[-16:]
        yield true[:16] + mine[16:]
        yield true[:24] + b"\xff" * 8 + true[32:]
        yield true[:-1]
        yield bytes(56)
        yield b""

    def test_no_caller_makes_a_manager_believe_that_it_was_put_back(
        self, pair: Pair, liar: Source
    ) -> None:
        exchanged(pair, b"first")
        before = born(pair.destination)
        for question, lie in enumerate(self.lies(pair)):
            liar.say(peer_frames.OpenStream(9, "orders", question, heard=7, receipt=lie))
        assert born(pair.destination) == before
        assert warnings(pair.destination) == []

    def test_a_lie_about_confirmations_changes_the_ordinals_of_its_own_stream_alone(
        self, pair: Pair, liar: Source
    ) -> None:
        exchanged(pair, b"first")
        outbox = look_into(pair.destination.manager).state.outbox
        before = {each.source: each.first for each in outbox.state()}
        liar.say(peer_frames.OpenStream(9, "orders", heard=1 << 40))
        liar.say(peer_frames.Passed(9, 1, 0, 5))
        after = {each.source: each.first for each in outbox.state()}
        assert after == before | {liar.keyed.id: (1 << 40) + 1}

    def test_a_longer_receipt_is_no_frame(self) -> None:
        """A source would keep it, for each stream."""
        said = peer_frames.StreamState(9, 1, 1, receipt=bytes(57))
        with pytest.raises(msgspec.ValidationError, match="56"):
            msgspec.msgpack.decode(msgspec.msgpack.encode(said), type=peer_frames.StreamState)


class TestConfirmations:
    """What a source has not heard, it is told by ordinals that it does not skip."""

    def wished(self, pair: Pair, *bodies: bytes) -> None:
        """Send messages of whose ends their source wants to hear."""
        caller = pair.source.session()
        wished = [Message(body=each, use_dead_letter_queue=True) for each in bodies]
        caller.send(caller.open(ADDRESS), *wished)
        pair.source.advance(60.0)
        pair.deliver()

    @pytest.mark.parametrize("crash", [False, True], ids=["", "crash"])
    def test_receives_at_a_destination_that_was_put_back_are_confirmed_before_its_source_calls(
        self, pair: Pair, tmp_path: Path, *, crash: bool
    ) -> None:
        """They are as many as the lost store had confirmed, so the ordinals fit."""
        bodies = [b"%d" % n for n in range(6)]
        self.wished(pair, *bodies)
        back_up(pair.destination, tmp_path / "copy")
        take_last(pair, 3)
        pair.deliver()
        assert awaited(pair) == 3
        pair.cut()
        restore(pair.destination, tmp_path / "copy")
        caller = pair.destination.session()
        received = caller.receive(caller.open("orders"), max_messages=3)[1]
        assert received == bodies[:3]
        if crash:
            pair.source.crash()
            pair.destination.crash()
        exchanged(pair)
        assert awaited(pair) == 0

    def test_receives_at_an_accepted_manager_and_at_the_one_before_it_are_all_confirmed(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        """The one before it has given ordinals that its source has heard of the other one."""
        first = pair.destination
        self.wished(pair, *(b"%d" % n for n in range(1, 9)))
        take_last(pair, 2)
        pair.deliver()
        accepted(pair, tmp_path, "c")
        self.wished(pair, b"9")
        assert awaited(pair) == 7
        assert len(bodies_at_destination(pair)) == 2
        pair.deliver()
        assert awaited(pair) == 6
        pair.cut()
        pair.destination = first
        pair.source.session().call(
            queue_frames.AcceptPeer(AT, look_into(first.manager).state.manager_id)
        )
        assert bodies_at_destination(pair) == [b"%d" % n for n in range(1, 7)]
        exchanged(pair)
        assert awaited(pair) == 0

    def test_a_queue_that_is_gone_still_has_the_ends_of_its_messages_told(
        self, pair: Pair, tmp_path: Path
    ) -> None:
        self.wished(pair, b"kept 1")
        back_up(pair.destination, tmp_path / "copy")
        self.wished(pair, b"lost 1")
        take_last(pair, 1)
        pair.deliver()
        pair.cut()
        restore(pair.destination, tmp_path / "copy")
        assert bodies_at_destination(pair) == [b"kept 1"]
        pair.destination.session().call(queue_frames.DeleteQueue("orders"))
        exchanged(pair)
        assert awaited(pair) == 0
