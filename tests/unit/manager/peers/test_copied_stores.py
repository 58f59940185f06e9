"""A store that is an old copy of itself: restored, or cloned (semantics 2.9, R38, R77)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dray.errors import Misuse
from dray.manager.entries import number_of
from dray.manager.events import Answer, HangUp, LinkFrame
from dray.manager.facts import StreamDiverged
from dray.model.classes import MessageClass
from dray.model.ids import Incarnation
from dray.model.message import Message
from dray.testing.keyed_manager import id_named
from dray.wire import peer_frames, queue_frames
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair, bodies_at_destination

TO = str(ADDRESS).rpartition("/")[0]


def send(pair: Pair, *bodies: bytes) -> None:
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), *[Message(body=body) for body in bodies])


def state_of_outgoing_queue(pair: Pair) -> tuple[str, int]:
    caller = pair.source.session()
    described = caller.call(queue_frames.DescribeQueue(ADDRESS))
    assert isinstance(described, queue_frames.QueueState)
    return described.info.state, described.info.message_count


def back_up(driver: ManagerDriver, to: Path) -> None:
    shutil.copytree(driver.path, to)


def restore(driver: ManagerDriver, backup: Path) -> None:
    """Put an old copy in the place of the store, a minute later."""
    driver.disk.close()
    shutil.rmtree(driver.path)
    shutil.copytree(backup, driver.path)
    driver.now += 60.0
    driver.start()


def outgoing(pair: Pair) -> list[str]:
    return [each.sentence for each in pair.source.manager.notices() if "dray://" in each.subject]


def resolve(pair: Pair, *, discard: bool) -> None:
    pair.source.session().call(queue_frames.ResolveOutgoing(ADDRESS, discard))
    pair.source.advance(10.0)
    pair.deliver()


def prepared(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path)
    pair.destination.session().create("orders")
    return pair


def test_a_source_that_was_put_back_delivers_all_its_new_messages_and_none_twice(
    tmp_path: Path,
) -> None:
    pair = prepared(tmp_path)
    send(pair, b"waiting at the copy")
    back_up(pair.source, tmp_path / "copy")
    pair.deliver()
    for n in range(4):
        send(pair, b"lost with the disk %d" % n)
        pair.deliver()
    pair.cut()
    restore(pair.source, tmp_path / "copy")
    sent = [b"after %d" % n for n in range(9)]
    for body in sent:
        send(pair, body)
    pair.source.advance(10.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [
        b"waiting at the copy",
        *(b"lost with the disk %d" % n for n in range(4)),
        *sent,
    ]
    assert state_of_outgoing_queue(pair) == ("connected", 0)
    assert any("older copy" in notice for notice in outgoing(pair))


def test_a_rollback_that_sends_offline_first_is_noticed_over_any_number_of_starts(
    tmp_path: Path,
) -> None:
    pair = prepared(tmp_path)
    send(pair, b"first")
    back_up(pair.source, tmp_path / "copy")
    pair.deliver()
    send(pair, b"lost")
    pair.deliver()
    pair.cut()
    restore(pair.source, tmp_path / "copy")
    sent = [b"offline %d" % n for n in range(5)]
    for body in sent:
        send(pair, body)
        pair.source.crash()
    pair.source.advance(10.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"first", b"lost", *sent]


def test_a_store_that_proves_to_be_an_older_copy_gives_out_no_number_twice(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    pair.source.session().create("local")
    send(pair, b"first")
    back_up(pair.source, tmp_path / "copy")
    send(pair, b"lost")
    pair.deliver()
    pair.cut()
    restore(pair.source, tmp_path / "copy")
    pair.source.advance(10.0)
    pair.deliver()
    caller = pair.source.session()
    caller.send(caller.open("local"), Message(body=b"new"))
    (envelope,), _ = caller.receive(caller.open("local"))
    assert envelope.lookup_id >= int(pair.source.now) * 1_000_000
    assert caller.next_number > 1 << 60


def test_a_restored_destination_goes_on_with_what_comes_next(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    back_up(pair.destination, tmp_path / "backup")
    send(pair, b"lost with the disk")
    pair.deliver()
    pair.cut()
    pair.source.advance(10.0)
    restore(pair.destination, tmp_path / "backup")
    send(pair, b"after the restore")
    pair.source.advance(10.0)
    pair.deliver()
    assert bodies_at_destination(pair)[-1] == b"after the restore"
    assert state_of_outgoing_queue(pair) == ("connected", 0)


def test_a_destination_that_was_put_back_is_told_at_both_ends_and_gives_out_higher_positions(
    tmp_path: Path,
) -> None:
    pair = prepared(tmp_path)
    send(pair, b"kept")
    pair.deliver()
    back_up(pair.destination, tmp_path / "copy")
    send(pair, b"still unacknowledged", b"lost with the disk")
    pair.deliver()
    pair.cut()
    restore(pair.destination, tmp_path / "copy")
    send(pair, b"new")
    pair.source.advance(10.0)
    pair.deliver()
    assert any("acknowledged more" in each for each in outgoing(pair))
    told = [str(each) for each in pair.destination.manager.notices()]
    assert any("does not have" in each for each in told)
    caller = pair.destination.session()
    envelopes, _ = caller.receive(caller.open("orders"))
    assert envelopes[-1].lookup_id >= int(pair.destination.now) * 1_000_000


class Clone:
    """A copy of a running source, which is started beside it and calls the same destination."""

    def __init__(self, pair: Pair, tmp_path: Path) -> None:
        shutil.copytree(pair.source.path, tmp_path / "clone")
        self.pair, self.true = pair, pair.source
        self.clone = ManagerDriver(tmp_path / "clone", "a")
        self.clone.now = pair.source.now

    def takes_over(self) -> None:
        self.pair.cut()
        self.pair.source = self.clone
        self.clone.advance(100.0)

    def falls_silent(self) -> None:
        self.pair.cut()
        self.pair.source = self.true
        self.true.now = self.clone.now
        self.true.advance(100.0)


def test_a_clone_that_goes_on_stops_the_true_one_and_nothing_of_either_is_lost(
    tmp_path: Path,
) -> None:
    pair = prepared(tmp_path)
    send(pair, b"both know")
    pair.deliver()
    clones = Clone(pair, tmp_path)
    send(pair, b"true 1")
    pair.deliver()
    clones.takes_over()
    theirs = [b"clone %d" % n for n in range(4)]
    send(pair, *theirs)
    pair.deliver()
    clones.falls_silent()
    ours = [b"true %d" % n for n in range(2, 9)]
    send(pair, *ours)
    pair.deliver()
    pair.source.advance(100.0)
    pair.deliver()
    assert state_of_outgoing_queue(pair) == ("diverged", len(ours))
    assert any("dray outgoing accept" in each for each in outgoing(pair))
    resolve(pair, discard=False)
    assert bodies_at_destination(pair) == [b"both know", b"true 1", *theirs, *ours]
    assert state_of_outgoing_queue(pair) == ("connected", 0)


def test_the_earlier_of_two_copies_that_call_at_once_is_refused_with_a_word_at_both_ends(
    tmp_path: Path,
) -> None:
    pair = prepared(tmp_path)
    driver = pair.destination
    true, clone = Incarnation(1 << 32, 0), Incarnation(2 << 32, 5)
    first, second = (
        driver.source(500, incarnations=[true, clone]),
        driver.source(501, incarnations=[true]),
    )
    for source in (first, second):
        source.say(peer_frames.OpenStream(9, "orders"))
    driver.effects = []
    driver.manager.notices()
    first.say(peer_frames.OpenStream(9, "orders", 2))
    (answer,) = driver.effects
    assert isinstance(answer, Answer)
    assert isinstance(answer.head, peer_frames.StreamRefused)
    assert (answer.head.error, answer.head.question) == ("other-copy", 2)
    (told,) = driver.manager.notices()
    assert "two copies of its data directory run" in told.sentence


@pytest.mark.parametrize(("asked", "warned"), [(0, ["other-copy"]), (-1, [])])
def test_a_source_that_is_refused_for_a_copy_warns_unless_it_has_asked_again_since(
    tmp_path: Path, asked: int, warned: list[str]
) -> None:
    pair = prepared(tmp_path)
    send(pair, b"x")
    while not any(isinstance(each, peer_frames.OpenStream) for each in pair.said):
        pair.deliver(upto=1)
    (question,) = (each for each in pair.said if isinstance(each, peer_frames.OpenStream))
    pair.source.manager.notices()
    number = question.question + asked
    refusal = peer_frames.StreamRefused(question.stream, "other-copy", "stop one", question=number)
    pair.source.turn(LinkFrame(PEER, Frame(refusal, 0, memoryview(b""))))
    kinds = [each.kind for each in pair.source.manager.notices()]
    assert [each for each in kinds if each == "other-copy"] == warned


def test_a_peer_that_took_messages_of_a_copy_has_no_word_about_those_that_wait(
    tmp_path: Path,
) -> None:
    pair = prepared(tmp_path)
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"waits", use_dead_letter_queue=True))
    while not any(isinstance(each, peer_frames.Data) for each in pair.said):
        pair.deliver(upto=1)
    pair.cut()
    inside = look_into(pair.source.manager)
    queue = inside.state.queues.named(ADDRESS)
    inside.record(StreamDiverged(queue.number, 1, 1, 1))
    pair.source.store.sync()
    (packed,) = queue.index.available()
    full = int(MessageClass.NACK_Q_EXCEED_QUOTA)
    word = [peer_frames.Confirmed(number_of(packed), full)]
    said = peer_frames.Confirmations(queue.number, 1, word)
    pair.source.turn(LinkFrame(PEER, Frame(said, 0, memoryview(b""))))
    assert state_of_outgoing_queue(pair) == ("diverged", 1)
    assert caller.what_is_in("system$;deadxact") == ([], [])


@pytest.mark.parametrize("frame", [peer_frames.Data, peer_frames.Passed])
def test_what_the_earlier_of_two_copies_sends_is_refused_for_the_copy_and_not_for_the_connection(
    tmp_path: Path, frame: type
) -> None:
    """It had opened the stream before the other copy did, so it does not ask first."""
    driver = prepared(tmp_path).destination
    true, clone = Incarnation(1 << 32, 0), Incarnation(2 << 32, 5)
    first = driver.source(500, incarnations=[true, clone])
    second = driver.source(501, incarnations=[true])
    for source in (first, second):
        source.say(peer_frames.OpenStream(9, "orders", 3))
    driver.manager.notices()
    (answer,) = first.say(frame(9, 5, 0, []) if frame is peer_frames.Data else frame(9, 5, 0, 2))
    assert isinstance(answer, peer_frames.StreamRefused)
    assert (answer.error, answer.question) == ("other-copy", 3)
    (told,) = driver.manager.notices()
    assert "two copies of its data directory run" in told.sentence


def diverged(tmp_path: Path) -> Pair:
    """A pair whose clone has sent a message, too."""
    pair = prepared(tmp_path)
    send(pair, b"both know")
    pair.deliver()
    clones = Clone(pair, tmp_path)
    clones.takes_over()
    send(pair, b"clone")
    pair.deliver()
    clones.falls_silent()
    return pair


def test_discarded_messages_of_a_diverged_queue_are_dead_letters(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    send(pair, b"doubtful 1", b"doubtful 2")
    pair.deliver()
    resolve(pair, discard=True)
    send(pair, b"next")
    pair.deliver()
    assert bodies_at_destination(pair) == [b"both know", b"clone", b"next"]
    caller = pair.source.session()
    assert caller.receive(caller.open("system$;deadxact"))[1] == [b"doubtful 1", b"doubtful 2"]


def test_divergence_survives_a_restart_and_does_not_heal_when_more_is_sent(tmp_path: Path) -> None:
    pair = diverged(tmp_path)
    for n in range(3):
        send(pair, b"waits %d" % n)
        pair.deliver()
        pair.cut()
        pair.source.advance(10.0)
        pair.source.crash()
        pair.source.advance(10.0)
        pair.deliver()
    assert state_of_outgoing_queue(pair) == ("diverged", 3)
    assert bodies_at_destination(pair) == [b"both know", b"clone"]


def test_only_a_diverged_queue_can_be_resolved(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    send(pair, b"one")
    pair.deliver()
    with pytest.raises(Misuse, match="has not diverged"):
        resolve(pair, discard=False)


def start_over_an_empty_folder(pair: Pair, tmp_path: Path) -> None:
    pair.cut()
    pair.destination = ManagerDriver(tmp_path / "another", "c")
    pair.destination.now = pair.source.now
    pair.source.advance(10.0)


def peers(pair: Pair) -> list[tuple[str, str, str]]:
    found = pair.source.session().call(queue_frames.ListPeers())
    assert isinstance(found, queue_frames.PeerList)
    return [(each.manager_id, each.state, each.found) for each in found.peers]


def test_a_destination_that_starts_over_an_empty_folder_gets_nothing(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    send(pair, b"first")
    pair.deliver()
    true = pair.destination
    start_over_an_empty_folder(pair, tmp_path)
    for n in range(20):
        send(pair, b"waits %d" % n)
    pair.deliver()
    pair.source.advance(10.0)
    pair.deliver()
    assert state_of_outgoing_queue(pair) == ("need-validation", 20)
    assert peers(pair) == [(id_named("b"), "need-validation", id_named("c"))]
    assert any("dray peer accept" in each.sentence for each in pair.source.manager.notices())
    pair.cut()
    pair.destination = true
    pair.source.advance(30.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"first", *(b"waits %d" % n for n in range(20))]
    assert peers(pair) == [(id_named("b"), "known", "")]


@pytest.mark.parametrize("crash", [False, True])
def test_an_accepted_manager_gets_all_that_waits(tmp_path: Path, *, crash: bool) -> None:
    pair = prepared(tmp_path)
    send(pair, b"first")
    pair.deliver()
    start_over_an_empty_folder(pair, tmp_path)
    pair.destination.session().create("orders")
    send(pair, b"second", b"third")
    pair.deliver()
    pair.source.session().call(queue_frames.AcceptPeer(TO))
    if crash:
        pair.cut()
        pair.source.crash()
    pair.source.advance(30.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"second", b"third"]
    assert peers(pair) == [(id_named("c"), "known", "")]


def test_a_forgotten_address_takes_whichever_manager_answers_next(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    send(pair, b"first")
    pair.deliver()
    start_over_an_empty_folder(pair, tmp_path)
    pair.source.session().call(queue_frames.ForgetPeer(TO))
    send(pair, b"second")
    pair.source.advance(30.0)
    pair.deliver()
    assert peers(pair) == [(id_named("c"), "known", "")]


@pytest.mark.parametrize("decides", [queue_frames.AcceptPeer, queue_frames.ForgetPeer])
def test_the_connection_ends_when_another_manager_is_to_be_known_there(tmp_path: Path, decides):
    pair = prepared(tmp_path)
    send(pair, b"first")
    pair.deliver()
    pair.source.effects.clear()
    another = (id_named("c"),) if decides is queue_frames.AcceptPeer else ()
    pair.source.session().call(decides(TO, *another))
    assert pair.source.has_done(HangUp(PEER))
    assert peers(pair) == [(*another, "known", "")] * len(another)


def test_what_answered_at_a_forgotten_address_is_forgotten_too(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    send(pair, b"first")
    pair.deliver()
    start_over_an_empty_folder(pair, tmp_path)
    send(pair, b"second")
    pair.deliver()
    assert peers(pair) == [(id_named("b"), "need-validation", id_named("c"))]
    pair.source.session().call(queue_frames.ForgetPeer(TO))
    with pytest.raises(Misuse, match="nothing to accept"):
        pair.source.session().call(queue_frames.AcceptPeer(TO))


@pytest.mark.parametrize("wrong", ["abc", "z" * 32, "A" * 32])
def test_only_an_id_of_a_manager_is_accepted(tmp_path: Path, wrong: str) -> None:
    pair = prepared(tmp_path)
    with pytest.raises(Misuse, match="32 hexadecimal digits"):
        pair.source.session().call(queue_frames.AcceptPeer(TO, wrong))


def test_accepting_where_nobody_strange_has_answered_is_refused(tmp_path: Path) -> None:
    pair = prepared(tmp_path)
    send(pair, b"first")
    pair.deliver()
    with pytest.raises(Misuse, match="nothing to accept"):
        pair.source.session().call(queue_frames.AcceptPeer(TO))
    with pytest.raises(Misuse, match="no queue manager is known"):
        pair.source.session().call(queue_frames.ForgetPeer("nowhere:7340"))
