"""Requests that make no sense, or are too many: each is refused with its reason."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from dray import errors
from dray.large.digests import DIGESTS
from dray.manager.events import CloseSession, HangUp, LinkFrame, LinkUp
from dray.model.message import Message
from dray.wire import frames, message_frames, peer_frames, queue_frames
from dray.wire.record import PLAIN, encode_record
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager import conftest
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.peers.test_links import ADDRESS, PEER


def caller_place(driver: ManagerDriver, caller: Caller) -> str:
    return look_into(driver.manager).sessions[caller.number].caller.place


def closes(driver: ManagerDriver) -> list[int]:
    return [each.session for each in driver.effects if isinstance(each, CloseSession)]


def test_no_more_receives_wait_at_a_queue_than_may(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.requests.receiving.WAITERS_PER_QUEUE_MAX", 2)
    caller = driver.session()
    queue, other = caller.create("orders"), caller.create("others")
    waiting = [caller.ask(message_frames.Receive(queue, 0, None)) for _ in range(2)]
    with pytest.raises(errors.Misuse, match="2 receives already wait at 'orders'"):
        caller.call(message_frames.Receive(queue, 0, None))
    assert not caller.answers(caller.ask(message_frames.Receive(other, 0, None)))
    caller.send(queue, Message(body=b"a"))
    assert [len(caller.answers(each)) for each in waiting] == [1, 0]
    assert not caller.answers(caller.ask(message_frames.Receive(queue, 0, None)))


def test_receives_that_were_answered_give_a_caller_no_more_than_may_wait(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.requests.receiving.WAITERS_PER_QUEUE_MAX", 2)
    caller = driver.session()
    queue = caller.create("orders")
    for _ in range(2):
        waiting = [caller.ask(message_frames.Receive(queue, 0, None)) for _ in range(2)]
        caller.send(queue, *[Message(body=b"a")] * 2)
        assert all(map(caller.answers, waiting))
    waiters = look_into(driver.manager).state.queues.numbered(queue).waiters
    assert waiters.count_of(caller_place(driver, caller)) == 0


def test_a_batch_that_no_fact_of_the_log_can_hold_is_refused_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(conftest, "LOG_BYTES", 16 << 10)
    driver = ManagerDriver(tmp_path / "data")
    caller = driver.session()
    queue = caller.create("orders", transactional=False)
    with pytest.raises(errors.Misuse, match="does not fit the log: send fewer"):
        caller.send(queue, *[Message(body=b"a")] * 200)
    assert driver.store.live_bytes == 0
    caller.send(queue, *[Message(body=b"a")] * 20)
    assert caller.call(queue_frames.DescribeQueue("orders")).info.message_count == 20


@pytest.mark.parametrize("sizes", [[], [64], [10_000], [64, 1]])
def test_sizes_that_do_not_fit_the_body_are_refused(driver, sizes):
    caller = driver.session()
    queue = caller.create("orders")
    with pytest.raises((errors.InvalidArgument, errors.ProtocolError)):
        caller.call(message_frames.Send(queue, 0, sizes, [0] * len(sizes)), b"x" * 70)
    assert driver.store.live_bytes == 0


def test_a_caller_of_an_unknown_role_is_told_so_and_let_go(driver):
    stranger = driver.open()
    with pytest.raises(errors.ProtocolError, match="nobody here knows what a 'king' is"):
        driver.ask(stranger, frames.Hello("king"))
    assert stranger in closes(driver)


def test_confirmations_that_were_never_made_cannot_be_taken(driver):
    driver.session().create("orders")
    source = driver.source(900, "b")
    source.say(peer_frames.OpenStream(1, "orders", 0))
    driver.effects.clear()
    source.say(peer_frames.ConfirmationsAcked(1, 0))
    assert closes(driver) == []
    source.say(peer_frames.ConfirmationsAcked(1, 1))
    assert closes(driver) == [900]


def test_an_answer_that_no_manager_gives_ends_the_connection_to_it(driver):
    caller = driver.session()
    caller.send(caller.open(ADDRESS), Message(body=b"a"))
    driver.turn(LinkUp(PEER))
    driver.manager.hello(PEER)
    driver.turn(LinkFrame(PEER, Frame(frames.Done(), 0, memoryview(b""))))
    assert driver.has_done(HangUp(PEER))
    info = caller.call(queue_frames.DescribeQueue(ADDRESS)).info
    assert "it answered with Done" in str(info.delivery)


def test_a_stream_that_wants_another_queue_waits_for_the_first_no_more(driver):
    caller = driver.session()
    caller.create("orders")
    source = driver.source(900, "b")
    wanted = look_into(driver.manager).subjects.sources.missing_queues.wanted
    (refused,) = source.say(peer_frames.OpenStream(1, "missing", 0))
    assert refused.error == errors.QueueNotFound.code
    assert list(wanted) == [(900, 1)]
    source.say(peer_frames.OpenStream(1, "orders", 0))
    assert not wanted


def test_a_batch_may_have_as_many_messages_as_a_frame_and_not_one_more(driver, monkeypatch):
    monkeypatch.setattr("dray.manager.requests.sending.BATCH_MESSAGES_MAX", 3)
    caller = driver.session()
    queue = caller.create("orders")
    caller.send(queue, *[Message(body=b"x")] * 3)
    with pytest.raises(errors.DrayError):
        caller.send(queue, *[Message(body=b"x")] * 4)
    assert len(caller.receive(queue)[1]) == 3


def test_the_transaction_number_that_is_the_first_of_all_is_one(driver):
    caller = driver.session()
    with pytest.raises(errors.InvalidArgument, match="a number from 1"):
        look_into(driver.manager).subjects.transactions.find_or_begin(
            look_into(driver.manager).sessions[caller.number], 0
        )
    begun = look_into(driver.manager).subjects.transactions.find_or_begin(
        look_into(driver.manager).sessions[caller.number], 1
    )
    assert begun.number == 1


@pytest.mark.parametrize("wrong", ["source", "size", "both"])
def test_a_record_of_another_source_or_of_another_length_is_refused(driver, wrong):
    caller = driver.session()
    queue = caller.create("orders")
    source = bytes.fromhex(driver.manager_id)
    if wrong != "size":
        source = bytes(len(source))
    head, body = encode_record(Message(body=b"body"), source, caller.number_for(), PLAIN)
    record = head + bytes(body)
    if wrong != "source":
        record += b"more"
    send = message_frames.Send(queue, 0, [len(record)], [crc32c(record)], True)
    (answer,) = caller.answers(caller.ask(send, record))
    assert answer.head.error == errors.InvalidArgument.code
    assert not caller.what_is_in(queue)[1]


DEAD, ORDERS = "system$;deadxact", "admin_queue$"


@pytest.mark.parametrize("name", [DEAD, ORDERS, "kept;journal"])
def test_a_queue_of_the_manager_itself_is_not_deleted(driver, name):
    caller = driver.session()
    caller.create("kept", journal=True)
    with pytest.raises(errors.AccessDenied, match="cannot be deleted"):
        caller.call(queue_frames.DeleteQueue(name))
    assert caller.call(queue_frames.DescribeQueue(name)).info.name == name


def test_quotas_are_numbers_of_bytes_of_queues_that_have_one(driver):
    caller = driver.session()
    caller.create("none", quota=0, journal_quota=0)
    for wrong in ({"quota": -1}, {"journal_quota": -1}):
        with pytest.raises(errors.InvalidArgument, match=next(iter(wrong))):
            caller.create("wrong", **wrong)
    caller.create("kept", journal=True)
    caller.open("kept;later")
    caller.call(queue_frames.SetQuota("kept", 5, 6))
    for name, error, sentence in (
        (ORDERS, errors.AccessDenied, "no quota applies"),
        ("kept;later", errors.Misuse, "under the quota of 'kept'"),
        ("kept;journal", errors.Misuse, "under the journal quota of 'kept'"),
    ):
        with pytest.raises(error, match=sentence):
            caller.call(queue_frames.SetQuota(name, 7, 8))


@pytest.mark.parametrize("name", [ORDERS, ADDRESS])
def test_messages_that_only_the_manager_takes_can_be_peeked_at_and_nothing_else(driver, name):
    caller = driver.session()
    kept, queue = caller.create("kept"), caller.open(name)
    with pytest.raises(errors.ReceiveTimeout):
        caller.receive(queue, peek=True)
    for taking in (
        message_frames.Receive(queue, 0, 0.0),
        message_frames.Settle(queue, 1, 0),
        message_frames.MoveMessages(queue, [1], kept, caller.number_for()),
        *([queue_frames.PurgeQueue(queue)] if name == ORDERS else ()),
    ):
        with pytest.raises(errors.AccessDenied, match="can only be peeked at"):
            caller.call(taking)


def test_no_transaction_takes_from_a_queue_that_is_not_transactional(driver):
    caller = driver.session()
    queue = caller.create("loose", transactional=False)
    later = caller.open("loose;later")
    caller.send(queue, Message(body=b"x"))
    number = caller.number_for()
    for taking in (
        message_frames.Receive(queue, number, 0.0),
        message_frames.Settle(queue, 1, number),
        message_frames.Move(queue, 1, later, number),
    ):
        with pytest.raises(errors.TransactionUsage, match="is not transactional"):
            caller.call(taking)
    assert len(caller.receive(queue)[1]) == 1


def test_a_queue_is_made_with_a_digest_that_is_known_here_and_with_no_other(driver):
    caller = driver.session()
    with pytest.raises(errors.Misuse, match=r"a digest is one of .*, not 'crc'"):
        caller.create("wrong", digest="crc")
    for digest in DIGESTS:
        caller.create(digest, digest=digest)
