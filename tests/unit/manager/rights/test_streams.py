"""Rights of other managers at streams; refusals are those that the source turns into NACKs."""

from __future__ import annotations

import pytest

from dray.errors import AccessDenied
from dray.manager.events import AccessChanged, SessionOpened
from dray.model.access import Access
from dray.model.callers import Caller
from dray.wire import frames, peer_frames
from tests.unit.manager.conftest import Source
from tests.unit.manager.rights.test_table import allowing, driver_with

PEER = Caller("cert:beta", address="10.0.0.2:4000")
NUMBER = 900


def peer_of(driver) -> Source:
    driver.turn(SessionOpened(NUMBER, PEER))
    source = Source(driver, NUMBER, "b")
    (welcome,) = source.say(source.keyed.hello())
    if isinstance(welcome, frames.Failed):
        raise AccessDenied(welcome.sentence)
    source.keyed.welcomed(welcome)
    return source


def test_a_caller_without_deliver_is_no_queue_manager(tmp_path):
    driver = driver_with(tmp_path, allowing("cert:beta", "send receive manage keep"))
    with pytest.raises(AccessDenied, match="may not be a queue manager here"):
        peer_of(driver)


def test_a_stream_is_refused_at_a_queue_that_its_caller_may_not_deliver_to(tmp_path):
    rules = (allowing("cert:beta", "deliver", "orders"), allowing("cert:beta", "see", "statusq"))
    driver = driver_with(tmp_path, *rules)
    source = peer_of(driver)
    for queue, code in (
        ("secrets", "queue-not-found"),  # NACK_BAD_DST_Q at its source
        ("missing", "queue-not-found"),
        ("statusq", "access-denied"),  # NACK_ACCESS_DENIED at its source
        ("dray://evil:1/x", "access-denied"),
    ):
        (refusal,) = source.say(peer_frames.OpenStream(16, queue))
        assert isinstance(refusal, peer_frames.StreamRefused)
        assert refusal.error == code, queue
    (state,) = source.say(peer_frames.OpenStream(16, "orders"))
    assert isinstance(state, peer_frames.StreamState)


def test_a_source_is_not_told_of_new_queues_that_it_may_not_see(tmp_path):
    driver = driver_with(tmp_path, allowing("cert:beta", "deliver", "orders;* later"))
    source = peer_of(driver)
    source.say(peer_frames.OpenStream(16, "hidden"))
    source.say(peer_frames.OpenStream(17, "later"))
    owner = driver.session()
    driver.effects.clear()
    owner.create("hidden")
    assert not [each for each in driver.effects if each.session == NUMBER]
    owner.create("later")
    assert [each for each in driver.effects if each.session == NUMBER]


def test_a_stream_ends_when_its_right_is_taken_back(tmp_path):
    driver = driver_with(tmp_path, allowing("cert:beta", "deliver", "orders"))
    source = peer_of(driver)
    source.say(peer_frames.OpenStream(16, "orders"))
    driver.turn(AccessChanged(Access([allowing("cert:beta", "deliver", "others")])))
    (refusal,) = source.say(peer_frames.Passed(16, 5, 0, 1))
    assert isinstance(refusal, peer_frames.StreamRefused)
    assert refusal.error == "queue-not-found", "its source learns why without another question"
    (refusal,) = source.say(peer_frames.OpenStream(16, "orders"))
    assert refusal.error == "queue-not-found"
