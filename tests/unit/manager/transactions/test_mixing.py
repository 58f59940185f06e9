"""Plain and large messages: kept apart in users' queues, together in the manager's own."""

from __future__ import annotations

import pytest

from dray.errors import LargeMessageMixing, ReceiveTimeout
from dray.manager.transactions.mixing import check_plain_receive
from dray.model.classes import QueueKind
from dray.model.message import Message
from dray.wire import frames, large_frames, message_frames, queue_frames
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large

DEAD = "system$;deadxact"


def large_dead_letter(driver: ManagerDriver) -> int:
    """A large message of four parts that is purged away; gives its sequence."""
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 2, transaction, use_dead_letter_queue=True)
    caller.commit(transaction, 3)
    caller.call(queue_frames.PurgeQueue(queue))
    return sequence


@pytest.mark.parametrize("kind", [QueueKind.PRIVATE, QueueKind.SUB])
def test_a_plain_receive_is_refused_where_users_send_large_messages(
    driver: ManagerDriver, kind: QueueKind
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    aside = caller.open("files;aside")
    send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    if kind is QueueKind.SUB:
        for position in (1, 2, 3):
            caller.call(message_frames.Move(queue, position, aside, 0, guarded=False))
    with pytest.raises(LargeMessageMixing):
        caller.receive(aside if kind is QueueKind.SUB else queue)


@pytest.mark.parametrize("restarted", [False, True])
def test_parts_are_received_singly_from_the_dead_letters(
    driver: ManagerDriver, restarted: bool
) -> None:
    large_dead_letter(driver)
    if restarted:
        driver.crash()
    caller = driver.session()
    dead = caller.open(DEAD)
    assert caller.receive(dead, max_messages=2)[1][1] == b"\x01"
    check_plain_receive(look_into(driver.manager).state.queues.named(DEAD))
    assert len(caller.receive(dead)[0]) == 2


@pytest.mark.parametrize("restarted", [False, True])
def test_a_large_message_among_the_dead_letters_is_still_whole(
    driver: ManagerDriver, restarted: bool
) -> None:
    sequence = large_dead_letter(driver)
    if restarted:
        driver.crash()
    caller = driver.session()
    assert take_large(caller, caller.open(DEAD), caller.number_for()).sequence == sequence


def test_a_large_message_in_a_received_transaction_is_nobody_elses_meanwhile(
    driver: ManagerDriver,
) -> None:
    sequence = large_dead_letter(driver)
    caller, other = driver.session(), driver.session()
    dead, taking = caller.open(DEAD), caller.number_for()
    found = caller.call(message_frames.ReceiveTransaction(dead, taking, 0.0))
    assert isinstance(found, message_frames.TransactionMessages)
    assert len(found.envelopes) == 4
    with pytest.raises(ReceiveTimeout):
        take_large(other, dead, other.number_for())
    caller.call(message_frames.Abort(taking))
    assert take_large(other, dead, other.number_for()).sequence == sequence


PLAIN = Message(body=b"plain")


def sent_large(caller: Caller, queue: int, **options: object) -> int:
    """Send a committed large message of one fragment."""
    transaction = caller.number_for()
    sequence = send_large(caller, queue, 1, transaction, **options)
    caller.commit(transaction, 3)
    return sequence


def refuses_plain(caller: Caller, queue: int) -> str:
    """See a plain send refused; gives the sentence."""
    with pytest.raises(LargeMessageMixing) as caught:
        caller.send(queue, PLAIN)
    return str(caught.value)


def crashed(driver: ManagerDriver, *, restarted: bool) -> Caller:
    if restarted:
        driver.crash()
    return driver.session()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("emptied", ["received", "purged", "taken by parts", "rejected"])
def test_an_empty_queue_takes_plain_messages_again(
    driver: ManagerDriver, emptied: str, restarted: bool
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    sent_large(caller, queue)
    taking = caller.number_for()
    match emptied:
        case "received":
            take_large(caller, queue, taking)
            assert "is used for large messages" in refuses_plain(caller, queue)
            caller.commit(taking, 0)
        case "purged":
            caller.call(queue_frames.PurgeQueue(queue))
        case "taken by parts":
            caller.receive(queue, guarded=False)
        case _:
            caller.receive(queue, transaction=taking, guarded=False)
            for position in (1, 2, 3):
                caller.call(message_frames.Reject(queue, position, taking))
            caller.commit(taking, 0)
    caller = crashed(driver, restarted=restarted)
    queue = caller.open("files")
    caller.send(queue, PLAIN)
    assert caller.receive(queue)[1] == [b"plain"]
    sequence = sent_large(caller, queue)
    assert take_large(caller, queue, caller.number_for()).sequence == sequence


@pytest.mark.parametrize("restarted", [False, True])
def test_a_queue_is_not_empty_while_large_messages_may_come_back(
    driver: ManagerDriver, restarted: bool
) -> None:
    caller = driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    sent_large(caller, queue)
    take_large(caller, queue, taking)
    if restarted:
        driver.crash()
        caller = driver.session()
        queue = caller.open("files")
    else:
        refuses_plain(caller, queue)
        with pytest.raises(LargeMessageMixing):
            caller.receive(queue)
        caller.call(message_frames.Abort(taking))
    refuses_plain(caller, queue)


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_prepared_receive_of_a_large_message_keeps_its_queue(
    driver: ManagerDriver, restarted: bool, commits: bool
) -> None:
    caller = driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    sent_large(caller, queue)
    take_large(caller, queue, taking)
    caller.call(message_frames.Prepare(taking, 0))
    caller = crashed(driver, restarted=restarted)
    queue = caller.open("files")
    refuses_plain(caller, queue)
    (prepared,) = caller.call(message_frames.ListPrepared()).transaction_ids
    caller.call(message_frames.SettlePrepared(prepared, commits))
    if commits:
        caller.send(queue, PLAIN)
    else:
        refuses_plain(caller, queue)


def test_a_queue_is_not_empty_while_a_large_message_is_being_sent_to_it(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue = caller.create("files")
    for ends in (message_frames.Abort, None):
        sending = caller.number_for()
        send_large(caller, queue, 1, sending)
        assert "is being sent" in refuses_plain(other, queue)
        if ends is not None:
            caller.call(ends(sending))
            other.send(queue, PLAIN)
            assert other.receive(queue)[1] == [b"plain"]
        else:
            caller.commit(sending, 3)
    assert "is used for" in refuses_plain(other, queue)


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_prepared_large_send_keeps_its_queue(
    driver: ManagerDriver, restarted: bool, commits: bool
) -> None:
    caller = driver.session()
    queue, sending = caller.create("files"), caller.number_for()
    send_large(caller, queue, 1, sending)
    caller.call(message_frames.Prepare(sending, 3))
    caller = crashed(driver, restarted=restarted)
    queue = caller.open("files")
    refuses_plain(caller, queue)
    (prepared,) = caller.call(message_frames.ListPrepared()).transaction_ids
    caller.call(message_frames.SettlePrepared(prepared, commits))
    if commits:
        refuses_plain(caller, queue)
    else:
        caller.send(queue, PLAIN)


@pytest.mark.parametrize("restarted", [False, True])
def test_an_unfinished_upload_keeps_its_queue_until_it_is_dropped(
    driver: ManagerDriver, restarted: bool
) -> None:
    caller = driver.session()
    queue, number = caller.create("files"), caller.number_for()
    begun = caller.call(large_frames.UploadBegin(queue, number, 0, b"source"))
    assert isinstance(begun, large_frames.UploadState)
    caller = crashed(driver, restarted=restarted)
    queue = caller.open("files")
    assert "is being sent" in refuses_plain(caller, queue)
    caller.call(large_frames.UploadDrop(begun.sequence_id))
    caller.send(queue, PLAIN)


@pytest.mark.parametrize("in_two_phases", [False, True])
def test_a_plain_message_is_refused_at_its_commit_where_large_ones_came_before_it(
    driver: ManagerDriver, in_two_phases: bool
) -> None:
    caller, other = driver.session(), driver.session()
    queue, plain = caller.create("files"), caller.number_for()
    caller.send(queue, PLAIN, transaction=plain)
    sequence = sent_large(other, queue)
    with pytest.raises(LargeMessageMixing, match="nothing of the transaction is kept"):
        caller.call((message_frames.Prepare if in_two_phases else message_frames.Commit)(plain, 1))
    taking = other.number_for()
    assert take_large(other, queue, taking).sequence == sequence
    other.commit(taking, 0)
    assert caller.what_is_in(queue)[1] == []
    assert driver.store.live_bytes == 0


def test_a_plain_message_of_a_raw_handle_is_committed_where_large_ones_came_before_it(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue, raw = caller.create("files"), caller.number_for()
    caller.send(queue, PLAIN, transaction=raw, guarded=False)
    sent_large(other, queue)
    caller.commit(raw, 1)
    assert caller.receive(queue, guarded=False)[1][-1] == b"plain"


def test_a_plain_message_that_is_committed_first_waits_for_the_large_ones(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue, plain = caller.create("files"), caller.number_for()
    caller.send(queue, PLAIN, transaction=plain)
    sending = other.number_for()
    sequence = send_large(other, queue, 1, sending)
    caller.commit(plain, 1)
    other.commit(sending, 3)
    with pytest.raises(LargeMessageMixing):
        caller.receive(queue)
    taking = other.number_for()
    assert take_large(other, queue, taking).sequence == sequence
    other.commit(taking, 0)
    assert caller.receive(queue)[1] == [b"plain"]


@pytest.mark.parametrize("restarted", [False, True])
def test_large_messages_in_a_sub_queue_may_come_back_to_their_queue(
    driver: ManagerDriver, restarted: bool
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    aside = caller.open("files;aside")
    sent_large(caller, queue)
    for position in (1, 2, 3):
        caller.call(message_frames.Move(queue, position, aside, 0, guarded=False))
    caller = crashed(driver, restarted=restarted)
    queue = caller.open("files")
    assert "are in 'files;aside'" in refuses_plain(caller, queue)
    assert caller.what_is_in(queue)[1] == []
    caller.call(queue_frames.PurgeQueue(caller.open("files;aside")))
    caller.send(queue, PLAIN)


@pytest.mark.parametrize("whole_transactions", [False, True])
def test_a_plain_receive_that_waits_takes_no_part_of_a_large_message(
    driver: ManagerDriver, whole_transactions: bool
) -> None:
    caller, other = driver.session(), driver.session()
    queue, taking = caller.create("files"), caller.number_for()
    if whole_transactions:
        waiting = message_frames.ReceiveTransaction(queue, taking, None)
    else:
        waiting = message_frames.Receive(queue, 0, None, 1)
    request = caller.ask(waiting)
    sequence = sent_large(other, queue)
    (refused,) = caller.answers(request)
    assert isinstance(refused.head, frames.Failed)
    assert refused.head.error == LargeMessageMixing.code
    assert not list(look_into(driver.manager).state.queues.numbered(queue).waiters)
    assert take_large(other, queue, other.number_for()).sequence == sequence


def test_an_outgoing_queue_is_free_for_plain_messages_once_it_is_empty(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.open("dray://127.0.0.1:9/there")
    sent_large(caller, queue)
    assert "is used for large messages" in refuses_plain(caller, queue)
    caller.call(queue_frames.PurgeQueue(queue))
    caller.send(queue, PLAIN)


def test_a_damaged_part_that_is_put_aside_keeps_no_queue(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("files")
    sent_large(caller, queue)
    index = look_into(driver.manager).state.queues.named("files").index
    for packed in list(index.available()):
        index.put_aside(packed)
    caller.send(queue, PLAIN)
    assert caller.receive(queue)[1] == [b"plain"]
