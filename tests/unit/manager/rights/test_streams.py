"""Rights of other managers at streams; refusals are those that the source turns into NACKs."""

from __future__ import annotations

import pytest

from dray.errors import AccessDenied
from dray.manager.events import AccessChanged, Answer, Request, SessionOpened
from dray.model.access import Access
from dray.model.callers import Caller
from dray.wire import frames
from dray.wire.stream import Frame
from tests.unit.manager.rights.test_table import allowing, desk_with

PEER = Caller("cert:beta", address="10.0.0.2:4000")
NUMBER = 900


def say(desk, head: frames.Head) -> list[frames.Head]:
    effects = desk.turn(Request(NUMBER, Frame(head, 0, memoryview(b""))))
    return [each.head for each in effects if isinstance(each, Answer)]


def peer_of(desk) -> None:
    desk.turn(SessionOpened(NUMBER, PEER))
    (welcome,) = say(desk, frames.Hello("manager", "b" * 32))
    if isinstance(welcome, frames.Failed):
        raise AccessDenied(welcome.sentence)


def test_a_caller_without_deliver_is_no_queue_manager(tmp_path):
    desk = desk_with(tmp_path, allowing("cert:beta", "send receive manage keep"))
    with pytest.raises(AccessDenied, match="may not be a queue manager here"):
        peer_of(desk)


def test_a_stream_is_refused_at_a_queue_that_its_caller_may_not_deliver_to(tmp_path):
    rules = (allowing("cert:beta", "deliver", "orders"), allowing("cert:beta", "see", "statusq"))
    desk = desk_with(tmp_path, *rules)
    peer_of(desk)
    for queue, code in (
        ("secrets", "queue-not-found"),  # NACK_BAD_DST_Q at its source
        ("missing", "queue-not-found"),
        ("statusq", "access-denied"),  # NACK_ACCESS_DENIED at its source
        ("dray://evil:1/x", "access-denied"),
    ):
        (refusal,) = say(desk, frames.OpenStream(16, queue))
        assert isinstance(refusal, frames.StreamRefused)
        assert refusal.error == code, queue
    (state,) = say(desk, frames.OpenStream(16, "orders"))
    assert isinstance(state, frames.StreamState)


def test_a_source_is_not_told_of_new_queues_that_it_may_not_see(tmp_path):
    desk = desk_with(tmp_path, allowing("cert:beta", "deliver", "orders;* later"))
    peer_of(desk)
    say(desk, frames.OpenStream(16, "hidden"))
    say(desk, frames.OpenStream(17, "later"))
    owner = desk.session()
    desk.effects.clear()
    owner.create("hidden")
    assert not [each for each in desk.effects if each.session == NUMBER]
    owner.create("later")
    assert [each for each in desk.effects if each.session == NUMBER]


def test_a_stream_ends_when_its_right_is_taken_back(tmp_path):
    desk = desk_with(tmp_path, allowing("cert:beta", "deliver", "orders"))
    peer_of(desk)
    say(desk, frames.OpenStream(16, "orders"))
    desk.turn(AccessChanged(Access([allowing("cert:beta", "deliver", "others")])))
    (refusal,) = say(desk, frames.Passed(16, 5, 0, 1))
    assert isinstance(refusal, frames.StreamRefused)
    (refusal,) = say(desk, frames.OpenStream(16, "orders"))
    assert refusal.error == "queue-not-found"
