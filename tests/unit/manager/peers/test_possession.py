"""Who may speak of a stream: forged sources, forged destinations, and managers in between."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from dray.delivery.keys import id_of
from dray.manager.events import (
    Answer,
    CloseSession,
    HangUp,
    LinkFrame,
    LinkSend,
    LinkUp,
    Peer,
    Request,
    SessionOpened,
)
from dray.manager.notices import NoticeKind
from dray.manager.peers.possession import with_copy_proof
from dray.model.callers import OWNER
from dray.model.ids import Incarnation
from dray.model.message import Message
from dray.testing.keyed_manager import ONCE, KeyedManager, id_named
from dray.wire import frames, peer_frames, queue_frames
from dray.wire.head import Head
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver, Source
from tests.unit.manager.peers.test_links import (
    ADDRESS,
    PEER,
    Pair,
    bodies_at_destination,
    pair,  # noqa: F401 - a fixture
)

FORGED = 900
"""The session of the forger."""
FAR = Peer("far", 7340)


class Forger:
    """Says that it is a manager whose public key it knows, and that is all it knows."""

    def __init__(self, driver: ManagerDriver, hello: frames.Hello) -> None:
        self.driver = driver
        driver.turn(SessionOpened(FORGED, OWNER))
        self.said: list[Head] = []
        self.ended = False
        self.say(hello)

    def say(self, head: Head) -> None:
        for each in self.driver.turn(Request(FORGED, Frame(head, 0, memoryview(b"")))):
            if isinstance(each, Answer) and each.session == FORGED:
                self.said.append(each.head)
            self.ended = self.ended or (isinstance(each, CloseSession) and each.session == FORGED)


def send(pair: Pair, *bodies: bytes) -> None:  # noqa: F811
    caller = pair.source.session()
    for body in bodies:
        caller.send(caller.open(ADDRESS), Message(body=body))


def notices(driver: ManagerDriver) -> list[tuple[str, str]]:
    return [(each.kind, each.subject) for each in driver.manager.notices()]


def forge(pair: Pair, hello: frames.Hello) -> Forger:  # noqa: F811
    """As the attack went: learn the sequence from DeliveryInfo, pass over what is to come."""
    info = pair.source.session().call(queue_frames.DescribeQueue(ADDRESS)).info.delivery
    (queue,) = look_into(pair.source.manager).state.queues.outgoing()
    forger = Forger(pair.destination, hello)
    sequence_id = info.sequence_id or int(pair.source.now + 1000) << 32
    for head in (
        peer_frames.OpenStream(queue.number, "orders"),
        peer_frames.Passed(queue.number, sequence_id, 0, 1 << 20),
        peer_frames.EndStream(queue.number),
        peer_frames.ConfirmationsAcked(queue.number, 0),
    ):
        if not forger.ended:
            forger.say(head)
    return forger


def test_a_forged_source_loses_no_message(pair: Pair):  # noqa: F811
    send(pair, b"before")
    pair.deliver()
    hello = pair.source.manager.hello(PEER)
    pair.source.crash()
    pair.destination.manager.notices()
    forger = forge(pair, hello)
    assert forger.ended
    assert isinstance(forger.said[-1], frames.Failed)
    assert notices(pair.destination) == [(NoticeKind.KEY_NOT_SHOWN, pair.source.manager_id)]
    send(pair, *(b"%d" % n for n in range(5)))
    pair.source.advance(60.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"before", *(b"%d" % n for n in range(5))]


def test_a_forged_source_that_replays_all_that_a_source_said_is_refused(pair: Pair):  # noqa: F811
    send(pair, b"once")
    pair.deliver()
    said = [each for each in pair.said if isinstance(each, frames.Hello | peer_frames.OpenStream)]
    forger = Forger(pair.destination, said[0])
    forger.say(said[1])
    assert forger.ended
    assert bodies_at_destination(pair) == [b"once"]


def test_a_forged_hello_of_a_later_incarnation_ends_no_connection(pair: Pair):  # noqa: F811
    send(pair, b"one")
    pair.deliver()
    hello = pair.source.manager.hello(PEER)
    later = [*hello.incarnations, Incarnation(hello.incarnations[-1].number + (1 << 32), 1 << 20)]
    forger = forge(pair, frames.Hello("manager", *hello_fields(hello, later)))
    assert forger.ended
    assert pair.line is not None
    send(pair, b"two")
    pair.deliver()
    assert bodies_at_destination(pair) == [b"one", b"two"]


def hello_fields(hello: frames.Hello, incarnations: list[Incarnation]) -> tuple[object, ...]:
    return hello.manager_id, hello.name, incarnations, hello.public, hello.once


@pytest.mark.parametrize("letter", ["", "c"])
def test_an_id_that_does_not_come_of_the_key_is_refused(driver: ManagerDriver, letter: str):
    keyed = KeyedManager("b")
    forger = Forger(driver, keyed.hello(manager_id=id_named(letter) if letter else ""))
    assert forger.ended


@pytest.mark.parametrize("wrong", [{"once": b""}, {"public": b"", "manager_id": ""}])
def test_a_hello_without_a_key_or_a_number_is_refused(
    driver: ManagerDriver, wrong: dict[str, object]
):
    assert Forger(driver, KeyedManager("b").hello(**wrong)).ended


def test_a_hello_with_a_key_of_which_everybody_knows_the_secret_is_refused(driver: ManagerDriver):
    zero = bytes(32)
    assert Forger(driver, frames.Hello("manager", id_of(zero), "", [], zero, ONCE)).ended


def test_word_of_a_stream_that_a_caller_has_not_opened_does_not_count(tmp_path: Path):
    """A manager in between gets proofs only of the streams that lead to itself."""
    driver = ManagerDriver(tmp_path / "b", "b")
    driver.session().create("orders")
    source = driver.source(500, "a")
    source.say(peer_frames.OpenStream(7, "orders"))
    driver.manager.notices()
    for head in (peer_frames.ConfirmationsAcked(8, 0), peer_frames.RepairAnswer(8, 1, ["header"])):
        assert source.say(head) == []
    assert notices(driver) == [(NoticeKind.KEY_NOT_SHOWN, id_named("a"))] * 2


def test_a_proof_of_one_stream_opens_no_other_and_leads_to_no_other_queue(tmp_path: Path):
    driver = ManagerDriver(tmp_path / "b", "b")
    for name in ("orders", "payroll"):
        driver.session().create(name)
    for number, other in enumerate(
        (peer_frames.OpenStream(8, "orders"), peer_frames.OpenStream(7, "payroll")), FORGED + 1
    ):
        source: Source = driver.source(number, "a")
        proof = source.keyed.proven(peer_frames.OpenStream(7, "orders")).proof
        forged = peer_frames.OpenStream(other.stream, other.queue, proof=proof)
        frame = Frame(forged, 0, memoryview(b""))
        assert CloseSession(number) in driver.turn(Request(number, frame))


def test_a_forged_destination_is_sent_nothing_and_its_word_does_not_count(
    pair: Pair,  # noqa: F811
):
    send(pair, b"before")
    pair.deliver()
    pair.cut()
    send(pair, *(b"%d" % n for n in range(5)))
    welcome = next(each for each in pair.said if isinstance(each, frames.Welcome))
    (queue,) = look_into(pair.source.manager).state.queues.outgoing()
    pair.source.effects = []
    pair.source.advance(60.0)
    hello = pair.source.manager.hello(PEER)
    pair.source.turn(LinkUp(PEER))
    assert hello.once
    for head in (
        welcome,
        peer_frames.StreamState(queue.number, queue.stream.sequence_id, 1 << 20, question=9),
    ):
        pair.source.turn(LinkFrame(PEER, Frame(head, 0, memoryview(b""))))
    assert not any(isinstance(each, LinkSend) for each in pair.source.effects)
    assert pair.source.has_done(HangUp(PEER))
    assert (NoticeKind.KEY_NOT_SHOWN, "dray://127.0.0.1:7340") in notices(pair.source)
    caller = pair.source.session()
    assert caller.call(queue_frames.DescribeQueue(ADDRESS)).info.state == "need-validation"
    (known,) = caller.call(queue_frames.ListPeers()).peers
    assert (known.manager_id, known.state, known.found) == (
        pair.destination.manager_id, "need-validation", "",
    )  # fmt: skip
    pair.source.effects = []
    pair.source.advance(60.0)
    pair.deliver()
    assert bodies_at_destination(pair) == [b"before", *(b"%d" % n for n in range(5))]
    (known,) = pair.source.session().call(queue_frames.ListPeers()).peers
    assert known.state == "known"


def test_the_first_to_answer_at_an_address_is_not_remembered_without_its_key(driver: ManagerDriver):
    caller = driver.session()
    caller.send(caller.open("dray://far:7340/orders"), Message(body=b"x"))
    driver.manager.hello(FAR)
    driver.turn(LinkUp(FAR))
    claimed = frames.Welcome(id_named("c"), "c", "", 1, public=b"", once=ONCE, proof=bytes(32))
    driver.turn(LinkFrame(FAR, Frame(claimed, 0, memoryview(b""))))
    assert driver.session().call(queue_frames.ListPeers()).peers == []


def test_the_key_of_a_manager_stays_after_a_restart_and_in_a_checkpoint(driver: ManagerDriver):
    before = driver.manager.hello(PEER)
    driver.store.checkpoint(driver.manager.snapshot())
    driver.crash()
    after = driver.manager.hello(PEER)
    assert after.public == before.public
    assert after.once != before.once


def own_hello(driver: ManagerDriver, *incarnations: int) -> frames.Hello:
    """The Hello of a manager with the same key, in an incarnation of these numbers."""
    key = look_into(driver.manager).state.identity.key
    past = [Incarnation(number, 0) for number in incarnations]
    said = frames.Hello("manager", key.id, "copy", past, key.public, ONCE)
    return with_copy_proof(key, said)


def kinds(driver: ManagerDriver) -> list[str]:
    return [each.kind for each in driver.manager.notices()]


def test_a_forged_hello_under_the_managers_own_id_is_told_from_a_copy(driver: ManagerDriver):
    """Any client could cause the warning of a second copy; now only one with the key can."""
    genuine = own_hello(driver, 1 << 60)
    own = look_into(driver.manager).state.identity.key
    for forged in (
        msgspec.structs.replace(genuine, copy_proof=b""),
        msgspec.structs.replace(genuine, once=bytes(16)),
        msgspec.structs.replace(genuine, incarnations=[Incarnation(5, 0)]),
        frames.Hello("manager", own.id, "", [], own.public, ONCE),
    ):
        kinds(driver)
        forger = Forger(driver, forged)
        assert forger.ended
        assert kinds(driver) == [NoticeKind.KEY_NOT_SHOWN]


def test_a_copy_of_the_store_is_told_by_its_key_and_its_incarnation(driver: ManagerDriver):
    kinds(driver)
    assert Forger(driver, own_hello(driver, 1 << 60)).ended
    assert kinds(driver) == [NoticeKind.OTHER_COPY]


def test_the_managers_own_hello_that_comes_back_is_no_copy(driver: ManagerDriver):
    driver.crash()
    kinds(driver)
    assert Forger(driver, driver.manager.hello(PEER)).ended
    assert kinds(driver) == []


def closed(driver: ManagerDriver) -> list[int]:
    found = [each.session for each in driver.effects if isinstance(each, CloseSession)]
    driver.effects.clear()
    return found


def test_the_first_proof_ends_the_connections_that_earlier_incarnations_left_behind(
    driver: ManagerDriver,
):
    driver.session().create("orders")
    past = [Incarnation(5, 1), Incarnation(6, 2)]
    left = driver.source(901, "b", incarnations=past[:1])
    other = driver.source(902, "c", incarnations=past[:1])
    for each in (left, other):
        each.say(peer_frames.OpenStream(1, "orders", 0))
    sessions = look_into(driver.manager).sessions
    assert sessions[901].streams
    now = driver.source(903, "b", incarnations=past)
    beside = driver.source(904, "b", incarnations=past)
    driver.effects.clear()
    now.say(peer_frames.OpenStream(1, "orders", 0))
    assert closed(driver) == [901], "neither that of another manager nor one of the same start"
    assert not sessions[901].streams
    now.say(peer_frames.OpenStream(2, "orders", 0))
    assert closed(driver) == [], "the first one has said it"
    assert beside.say(peer_frames.OpenStream(3, "orders", 0))


def test_a_manager_that_tells_no_incarnation_is_not_taken_for_one_that_it_left_behind(
    driver: ManagerDriver,
):
    driver.session().create("orders")
    source = driver.source(901, "b", incarnations=[])
    driver.effects.clear()
    assert source.say(peer_frames.OpenStream(1, "orders", 0))
    assert closed(driver) == []


def test_a_manager_says_its_last_incarnations_and_no_more_of_them(driver: ManagerDriver):
    past = [Incarnation(number, number) for number in range(1, 66)]
    driver.source(901, "b", incarnations=past[1:])
    driver.turn(SessionOpened(902, OWNER))
    source = Source(driver, 902, "c")
    (failed,) = source.say(source.keyed.hello(incarnations=past))
    assert isinstance(failed, frames.Failed)
    assert "says its last 64 incarnations at most" in failed.sentence
