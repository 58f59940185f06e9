"""Acts of callers that are written to the access log."""

from __future__ import annotations

import pytest

from dray.errors import AccessDenied, DrayError, QueueNotFound
from dray.manager.events import ActKind, CallerAct
from dray.manager.rights import acts, table
from dray.model.callers import OWNER
from dray.model.message import Message
from dray.model.names import DEAD_LETTER_QUEUES
from dray.model.queue import QueueOptions
from dray.wire import (
    backup_frames,
    file_frames,
    large_frames,
    message_frames,
    peer_frames,
    queue_frames,
    range_frames,
    token_frames,
)
from tests.inspection import look_into
from tests.unit.manager.rights.test_streams import NUMBER, PEER, peer_of
from tests.unit.manager.rights.test_table import ADA, BOB, allowing, driver_with

DEAD_LETTERS = DEAD_LETTER_QUEUES[1]


def told(driver):
    found = [each for each in driver.effects if isinstance(each, CallerAct)]
    driver.effects.clear()
    return [(each.kind, each.caller.name, each.frame, each.subject) for each in found]


def test_each_frame_that_needs_manage_or_keep_of_the_whole_is_an_act():
    """Rows that only read are left out by name."""
    managing = {
        kind
        for kind, row in table.RIGHTS_OF_CLIENTS.items()
        if kind in {queue_frames.CreateQueue, queue_frames.SetQuota}
        or any(
            str(cell.cell_contents) in {"manage", "keep"}
            for cell in getattr(row, "__closure__", None) or ()
        )
    }
    assert managing - acts.OF_CLIENTS.keys() == {
        queue_frames.ListPeers,
        token_frames.DescribeAccess,
        backup_frames.BackupRead,
    }
    assert len(managing) == 12


def test_managing_acts_of_the_owner_are_told_with_caller_and_session(tmp_path):
    driver = driver_with(tmp_path)
    owner = driver.session()
    told(driver)
    number = owner.create("new")
    owner.call(queue_frames.CreateQueue("new", QueueOptions(), exist_ok=True))
    owner.call(queue_frames.SetQuota("new", 5, 5))
    owner.call(queue_frames.SetQuota("", 5, 5))
    owner.call(queue_frames.PurgeQueue(number))
    owner.call(queue_frames.DeleteQueue("new"))
    (created, *_) = [each for each in driver.effects if isinstance(each, CallerAct)]
    assert (created.caller, created.session) == (OWNER, owner.number)
    assert told(driver) == [
        ("manage", "owner", "CreateQueue", "new"),
        ("manage", "owner", "SetQuota", "new"),
        ("manage", "owner", "SetQuota", ""),
        ("manage", "owner", "PurgeQueue", "new"),
        ("manage", "owner", "DeleteQueue", "new"),
    ]


@pytest.mark.parametrize(
    ("head", "subject"),
    [
        (queue_frames.PauseQueue("orders", paused=True), "orders"),
        (queue_frames.ResolveOutgoing("orders", discard=True), "orders"),
        (token_frames.CreateToken("app", b""), "token:app"),
        (token_frames.RevokeToken("app"), "token:app"),
        (queue_frames.AcceptPeer("dray://elsewhere:7340"), "dray://elsewhere:7340"),
        (queue_frames.ForgetPeer("dray://elsewhere:7340"), "dray://elsewhere:7340"),
    ],
)
def test_an_act_at_queues_tokens_and_peers_names_its_subject(tmp_path, head, subject):
    found = noted(driver_with(tmp_path), head)
    assert (found.kind, found.caller) == (ActKind.MANAGE, OWNER)
    assert (found.frame, found.subject) == (type(head).__name__, subject)


@pytest.mark.parametrize(
    "reads",
    [
        lambda queue: message_frames.Receive(queue, 0, 0.0),
        lambda queue: message_frames.ReceiveTransaction(queue, 0, 0.0),
        lambda queue: large_frames.LargeReceive(queue, 0, 0.0),
        lambda queue: range_frames.MeasureRange(queue, 0),
        lambda queue: range_frames.ReadRange(queue, 0, 9, 9, 9),
        lambda queue: large_frames.ReadPart(queue, 1, 0, 1),
        lambda queue: file_frames.CopyPart(queue, 1, 0, 1, 0),
        lambda queue: message_frames.Move(queue, 1, queue, 0),
    ],
)
def test_every_way_to_read_dead_letters_is_told_and_none_to_read_a_queue(tmp_path, reads):
    driver = driver_with(tmp_path)
    owner = driver.session()
    assert noted(driver, reads(owner.open("orders"))) is None
    found = noted(driver, reads(owner.open(DEAD_LETTERS)))
    assert (found.kind, found.subject) == (ActKind.KEEP, DEAD_LETTERS)
    assert found.frame == type(reads(0)).__name__


def noted(driver, head):
    """The act that the row of a frame notes, when the owner asks for it."""
    inside = look_into(driver.manager)
    session = inside.sessions[driver.session().number]
    return acts.OF_CLIENTS[type(head)](inside.links.rights, session, head)


def test_an_act_that_fails_is_none(tmp_path):
    driver = driver_with(tmp_path)
    owner = driver.session()
    told(driver)
    for head in (
        queue_frames.DeleteQueue("none"),
        queue_frames.CreateQueue("orders", QueueOptions()),
    ):
        with pytest.raises(DrayError):
            owner.call(head)
    assert told(driver) == []


def test_an_ordinary_send_and_receive_are_no_acts(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send receive", "orders"))
    ada = driver.session(ADA)
    told(driver)
    orders = ada.open("orders")
    ada.send(orders, Message(body=b"1"))
    ada.receive(orders)
    assert told(driver) == []


def test_a_journal_that_is_read_is_told_once_a_session(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "keep"))
    ada = driver.session(ADA)
    told(driver)
    dead = ada.open(DEAD_LETTERS)
    for _ in range(3):
        ada.call(large_frames.LargeList(dead, 0, 10))
    assert told(driver) == [("keep", "user:ada", "LargeList", DEAD_LETTERS)]
    ada.call(backup_frames.Backup())
    assert told(driver) == [("keep", "user:ada", "Backup", "")]


def test_refusals_are_told_also_those_in_the_words_of_a_missing_queue(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send", "orders"))
    ada = driver.session(ADA)
    orders, secrets = ada.open("orders"), driver.session().open("secrets")
    told(driver)
    with pytest.raises(AccessDenied):
        ada.call(queue_frames.PurgeQueue(orders))
    with pytest.raises(QueueNotFound):
        ada.call(message_frames.Receive(secrets, 0, 0.0))
    with pytest.raises(QueueNotFound):
        ada.call(queue_frames.DescribeQueue("secrets"))
    with pytest.raises(AccessDenied):
        driver.session(BOB)
    assert told(driver) == [
        ("refused", "user:ada", "PurgeQueue", "orders"),
        ("refused", "user:ada", "Receive", "secrets"),
        ("refused", "user:ada", "DescribeQueue", "secrets"),
        ("refused", "token:bob", "Hello", ""),
    ]


def test_a_queue_that_was_deleted_is_no_refusal(tmp_path):
    driver = driver_with(tmp_path, allowing("user:ada", "send peek", "orders"))
    ada = driver.session(ADA)
    orders = ada.open("orders")
    driver.session().call(queue_frames.DeleteQueue("orders"))
    told(driver)
    with pytest.raises(QueueNotFound):
        ada.send(orders, Message(body=b"1"))
    assert told(driver) == []


def test_streams_of_other_managers_are_told(tmp_path):
    driver = driver_with(tmp_path, allowing("cert:beta", "deliver", "orders"))
    source = peer_of(driver)
    told(driver)
    source.say(peer_frames.OpenStream(16, "orders"))
    source.say(peer_frames.OpenStream(17, "secrets"))
    (delivered, refused) = [each for each in driver.effects if isinstance(each, CallerAct)]
    assert delivered == CallerAct(ActKind.DELIVER, PEER, NUMBER, "OpenStream", "orders")
    assert refused == CallerAct(ActKind.REFUSED, PEER, NUMBER, "OpenStream", "secrets")
