"""A manager is bound to its first caller: another one with the same key waits for a person."""

from __future__ import annotations

import pytest

from dray.errors import Misuse
from dray.manager.events import AccessChanged, CloseSession, SessionOpened
from dray.manager.peers import bound_callers
from dray.model.access import Access
from dray.model.callers import OWNER, Caller
from dray.testing.keyed_manager import id_named
from dray.wire import peer_frames, queue_frames
from tests.unit.manager.conftest import ManagerDriver, Source
from tests.unit.manager.rights.test_table import allowing

STREAM = 16
CERTIFIED = Caller("cert:depot", address="10.0.0.2:4000")
THIEF = Caller("cert:mallory", address="10.0.0.9:4000")
ID = id_named("b")


@pytest.fixture
def driver(tmp_path):
    rules = [allowing(who, "deliver", "orders") for who in ("cert:*", "token:*", "anyone")]
    driver = ManagerDriver(tmp_path / "data", access=Access(rules))
    driver.session().create("orders")
    return driver


def called(driver: ManagerDriver, who: Caller, letter: str = "b") -> Source:
    driver.sessions += 1
    driver.turn(SessionOpened(driver.sessions, who))
    source = Source(driver, driver.sessions, letter)
    (welcome,) = source.say(source.keyed.hello())
    source.keyed.welcomed(welcome)
    return source


def opens(source: Source) -> str:
    """What a source hears that opens a stream: nothing, or the code of the refusal."""
    (answer,) = source.say(peer_frames.OpenStream(STREAM, "orders"))
    return answer.error if isinstance(answer, peer_frames.StreamRefused) else ""


def peers(driver: ManagerDriver):
    return driver.session().call(queue_frames.ListPeers()).peers


def test_another_caller_under_the_id_of_a_manager_is_need_validation_until_it_is_accepted(driver):
    assert not opens(called(driver, CERTIFIED))
    driver.crash()
    thief = called(driver, THIEF)
    (refusal,) = thief.say(peer_frames.OpenStream(STREAM, "orders"))
    assert refusal.error == "need-validation"
    assert "cert:mallory (10.0.0.9:4000) shows the key of" in refusal.sentence
    assert f"dray peer accept {ID}" in refusal.sentence
    (known,) = peers(driver)
    assert (known.address, known.manager_id, known.caller) == (ID, ID, "cert:depot")
    assert (known.state, known.found_caller) == ("need-validation", "cert:mallory")
    assert known.found == ID
    assert [each.kind for each in driver.manager.notices()].count("other-caller") == 1
    driver.session().call(queue_frames.AcceptPeer(ID))
    (known,) = peers(driver)
    assert (known.state, known.caller) == ("known", "cert:mallory")
    assert (known.found, known.found_caller) == ("", "")
    driver.crash()
    assert not opens(called(driver, THIEF))
    assert opens(called(driver, CERTIFIED)) == "need-validation"


def test_nothing_that_another_caller_says_of_a_stream_counts(driver):
    true = called(driver, CERTIFIED)
    assert not opens(true)
    thief = called(driver, THIEF)
    opens(thief)
    (refusal,) = thief.say(peer_frames.Passed(STREAM, 5, 0, 100))
    assert refusal.error == "stream-not-open"
    (refusal,) = thief.say(peer_frames.EndStream(STREAM))
    assert (refusal.error, refusal.question) == ("need-validation", 0)
    (position,) = true.say(peer_frames.Passed(STREAM, 5, 0, 3))
    assert position.upto == 3, "the connection of the true one is as it was"


def test_a_renewed_certificate_has_the_same_caller_and_goes_on(driver):
    assert not opens(called(driver, CERTIFIED))
    assert not opens(called(driver, CERTIFIED._replace(address="10.7.7.7:1")))
    assert [(each.caller, each.state) for each in peers(driver)] == [("cert:depot", "known")]


def test_a_manager_that_goes_from_a_token_to_a_certificate_is_accepted_once(driver):
    assert not opens(called(driver, Caller("token:depot")))
    assert opens(called(driver, CERTIFIED)) == "need-validation"
    driver.session().call(queue_frames.AcceptPeer(ID))
    assert not opens(called(driver, CERTIFIED))


def test_the_known_caller_that_comes_again_ends_the_wait(driver):
    assert not opens(called(driver, CERTIFIED))
    opens(called(driver, THIEF))
    assert not opens(called(driver, CERTIFIED))
    assert [each.state for each in peers(driver)] == ["known"]
    with pytest.raises(Misuse, match="no other caller"):
        driver.session().call(queue_frames.AcceptPeer(ID))


def test_a_caller_that_says_nothing_binds_nothing_and_takes_the_place_of_nobody(driver):
    anyone = Caller("anyone", address="10.0.0.9:1")
    for who in (anyone, OWNER, anyone):
        assert not opens(called(driver, who))
    assert peers(driver) == []
    assert not opens(called(driver, CERTIFIED))
    assert opens(called(driver, anyone)) == "need-validation"
    driver.session().call(queue_frames.AcceptPeer(ID))
    assert peers(driver) == [], "whoever shows its key may come"


def test_a_forgotten_caller_leaves_its_place_to_the_next_and_its_streams_end(driver):
    first = called(driver, CERTIFIED)
    assert not opens(first)
    driver.effects.clear()
    driver.session().call(queue_frames.ForgetPeer(ID))
    assert CloseSession(first.number) in driver.effects
    (refusal,) = first.say(peer_frames.Passed(STREAM, 5, 0, 3))
    assert refusal.error == "stream-not-open", "what was on its way does not count"
    assert peers(driver) == []
    assert not opens(called(driver, THIEF))
    driver.store.checkpoint(driver.manager.snapshot())
    driver.crash()
    assert [each.caller for each in peers(driver)] == ["cert:mallory"]


def test_no_other_connection_ends_when_a_caller_is_forgotten(driver):
    first, other = called(driver, CERTIFIED), called(driver, CERTIFIED, "c")
    client = driver.session()
    assert not opens(first)
    assert not opens(other)
    driver.effects.clear()
    client.call(queue_frames.ForgetPeer(ID))
    closed = [each.session for each in driver.effects if isinstance(each, CloseSession)]
    assert closed == [first.number]


def test_a_caller_comes_as_a_bounded_number_of_managers(driver, monkeypatch):
    monkeypatch.setattr(bound_callers, "SOURCES_OF_CALLER_MAX", 2)
    driver.turn(AccessChanged(Access([allowing("cert:*", "deliver", "orders")])))
    heard = [opens(called(driver, CERTIFIED, letter)) for letter in "bcde"]
    assert heard == ["", "", "misuse", "misuse"]
    driver.crash()
    assert opens(called(driver, CERTIFIED, "d")) == "misuse"
    assert not opens(called(driver, THIEF, "d"))
    driver.session().call(queue_frames.ForgetPeer(ID))
    assert not opens(called(driver, CERTIFIED, "e"))
