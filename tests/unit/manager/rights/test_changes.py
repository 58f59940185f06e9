"""Other rules hold at once, also for sessions that are open."""

from __future__ import annotations

import pytest

from dray.errors import AccessDenied, QueueNotFound
from dray.manager.events import AccessChanged
from dray.model.access import Access
from dray.model.message import Message
from dray.wire import frames, message_frames, transfer_frames
from tests.inspection import look_into
from tests.unit.manager.peers.test_links import ADDRESS, PEER, Pair
from tests.unit.manager.rights.test_table import ADA, FAR, allowing, driver_with


def test_a_right_that_is_taken_back_is_gone_at_the_next_frame(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send see", "orders"))
    ada = driver.session(ADA)
    orders = ada.open("orders")
    ada.send(orders, Message(body=b"1"))
    driver.turn(AccessChanged(Access([allowing("user:ada", "see", "orders")])))
    with pytest.raises(AccessDenied, match="may not send"):
        ada.send(orders, Message(body=b"2"))
    driver.turn(AccessChanged(Access()))
    with pytest.raises(QueueNotFound):
        ada.open("orders")


def test_a_receive_that_waits_is_refused_when_its_right_is_taken_back(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "receive", "orders"))
    ada = driver.session(ADA)
    request = ada.ask(message_frames.Receive(ada.open("orders"), 0, None))
    assert not ada.answers(request)
    driver.turn(AccessChanged(Access([allowing("user:ada", "send", "orders")])))
    (answer,) = ada.answers(request)
    assert isinstance(answer.head, frames.Failed)
    assert answer.head.error == "access-denied"
    owner = driver.session()
    owner.send(owner.open("orders"), Message(body=b"1"))
    assert len(ada.answers(request)) == 1


def test_streams_that_are_still_allowed_stay_open_and_others_are_closed(tmp_path):
    pair = Pair(tmp_path)
    there = pair.destination
    there.session().create("orders")
    caller = pair.source.session()
    caller.send(caller.open(ADDRESS), Message(body=b"1"))
    pair.deliver()
    streams = look_into(there.manager).sessions[pair.line].streams
    assert len(streams) == 1
    there.turn(AccessChanged(Access()))
    assert len(streams) == 1, "the owner may do all"


def test_tokens_for_peers_change_with_the_rules_only_if_they_are_given(driver):
    shown = []
    for tokens in (None, {PEER: "secret"}, None, {}):
        driver.turn(AccessChanged(Access(), tokens))
        shown.append(driver.manager.hello(PEER).token)
    assert shown == ["", "secret", "secret", ""]


def test_a_post_to_another_host_is_refused_once_its_right_is_taken_back(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "forward", hosts="elsewhere:7340"))
    ada = driver.session(ADA)
    post = transfer_frames.Post("box", b"", FAR)
    assert not ada.answers(ada.ask(post))
    driver.turn(AccessChanged(Access([allowing("user:ada", "see", "orders")])))
    (answer,) = ada.answers(ada.ask(post))
    assert answer.head.error == "access-denied"
