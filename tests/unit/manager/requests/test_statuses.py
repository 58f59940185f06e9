"""The status queue of a receive: what is placed there, what is discarded, what may be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.large.join import SequenceKey
from dray.large.status import Verdict, read_status, status_message
from dray.manager.change.quarantine import QUARANTINE_NAME
from dray.manager.entries import unpack
from dray.manager.notices import NoticeKind
from dray.manager.requests import statuses
from dray.model.classes import Part
from dray.model.limits import STATUSES_SEEN_MAX
from dray.model.message import Message
from dray.wire import frames, large_frames, message_frames, queue_frames
from dray.wire.record import PartMark
from dray.wire.selections import SelectBySequence
from tests.inspection import look_into
from tests.unit.manager.change.test_quarantine import damage
from tests.unit.manager.conftest import Caller, ManagerDriver
from tests.unit.manager.requests.test_large_messages import send_large, take_large


def send_holed(caller: Caller, queue: int) -> int:
    """A large message of three fragments, of which the second never was."""
    transaction = caller.number_for()
    (sequence,) = caller.send(
        queue,
        Message(app_specific=-9998),
        transaction=transaction,
        marks=(PartMark(Part.HEADER),),
        guarded=False,
    )
    for number, mark in (
        (1, PartMark(Part.FRAGMENT, sequence)),
        (3, PartMark(Part.FRAGMENT, sequence)),
        (-9999, PartMark(Part.TRAILER, sequence, 3)),
    ):
        message = Message(body=b"x", app_specific=number)
        caller.send(queue, message, transaction=transaction, marks=(mark,), guarded=False)
    caller.commit(transaction, 4)
    return sequence


def send_whole(caller: Caller, queue: int) -> int:
    transaction = caller.number_for()
    sequence = send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 3)
    return sequence


def said(caller: Caller, name: str) -> list[tuple[str, int, Verdict]]:
    """What the messages of a status queue say."""
    found = [read_status(body) for body in caller.what_is_in(name, peek=True)[1]]
    return [(each.queue, each.sequence, each.verdict) for each in found]


@pytest.fixture
def caller(driver: ManagerDriver) -> Caller:
    caller = driver.session()
    for name in ("files", "others", "statusq"):
        caller.create(name)
    return caller


def test_a_whole_message_has_a_status_while_it_is_held_and_none_after_the_commit(caller: Caller):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    sequence, taking = send_whole(caller, queue), caller.number_for()
    take_large(caller, queue, taking, status_queue=status_queue)
    assert said(caller, "statusq") == [], "the transaction holds it with the parts"
    caller.call(message_frames.Abort(taking))
    assert said(caller, "statusq") == [("files", sequence, Verdict.COMPLETE)]
    taking = caller.number_for()
    take_large(caller, queue, taking, status_queue=status_queue)
    caller.commit(taking, 0)
    assert said(caller, "statusq") == []


def test_a_hole_is_told_and_its_status_stays_until_it_is_rejected(caller: Caller):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    sequence = send_holed(caller, queue)
    for _ in range(2):
        with pytest.raises(errors.LargeMessageHole):
            take_large(caller, queue, caller.number_for(), status_queue=status_queue)
        assert said(caller, "statusq") == [("files", sequence, Verdict.DELETE)], "placed once"
    rejecting = caller.number_for()
    select = SelectBySequence(f"{caller.driver.manager_id}\\{sequence}")
    head = large_frames.LargeReceive(
        queue, rejecting, 0.0, select, status_queue=status_queue, reject=True
    )
    assert caller.call(head) == frames.Done(4)
    assert said(caller, "statusq") == []
    caller.commit(rejecting, 0)
    assert caller.what_is_in("files", peek=True)[1] == []


def test_what_has_a_status_is_received_first(caller: Caller):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    first, second = send_whole(caller, queue), send_whole(caller, queue)
    taking = [caller.number_for(), caller.number_for()]
    take_large(caller, queue, taking[0])
    assert take_large(caller, queue, taking[1], status_queue=status_queue).sequence == second
    for each in taking:
        caller.call(message_frames.Abort(each))
    found = take_large(caller, queue, caller.number_for(), status_queue=status_queue)
    assert found.sequence == second, "an interrupted receiver had begun with it"
    assert take_large(caller, queue, caller.number_for()).sequence == first


def test_junk_is_discarded_and_noticed_and_statuses_of_other_queues_stay(
    driver: ManagerDriver, caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(statuses, "STATUS_BYTES_MAX", 2_000)
    queue, status_queue = caller.open("files"), caller.open("statusq")
    sequence = send_whole(caller, queue)
    key = SequenceKey(bytes.fromhex(driver.manager_id), sequence)
    gone = SequenceKey(key.source, sequence + 1)
    caller.send(
        status_queue,
        Message(body=b"no status"),
        Message(body=bytes(2_000)),
        status_message("nowhere", key, []),
        status_message("others", key, []),
        status_message("files", gone, []),
        status_message("files", key, []),
        status_message("files", key, []),
    )
    driver.manager.notices()
    found = take_large(caller, queue, caller.number_for(), status_queue=status_queue)
    assert found.sequence == sequence
    junk = [each for each in driver.manager.notices() if each.kind == NoticeKind.STATUS_JUNK]
    assert [(each.subject, each.times) for each in junk] == [("statusq", 5)]
    assert said(caller, "statusq") == [("others", sequence, Verdict.COMPLETE)]


def test_a_damaged_status_goes_to_quarantine_and_is_no_junk(driver: ManagerDriver, caller: Caller):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    sequence = send_whole(caller, queue)
    key = SequenceKey(bytes.fromhex(driver.manager_id), sequence)
    caller.send(status_queue, status_message("files", key, []))
    damage(driver, "statusq", 0)
    assert take_large(caller, queue, caller.number_for(), status_queue=status_queue)
    assert said(caller, "statusq") == []
    assert len(look_into(driver.manager).state.queues.named(QUARANTINE_NAME).index) == 1


def test_a_receive_reads_a_bounded_number_of_statuses(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    assert STATUSES_SEEN_MAX == 1_000
    monkeypatch.setattr(statuses, "STATUSES_SEEN_MAX", 3)
    queue, status_queue = caller.open("files"), caller.open("statusq")
    send_whole(caller, queue)
    caller.send(status_queue, *[Message(body=b"%d" % n) for n in range(5)])
    take_large(caller, queue, caller.number_for(), status_queue=status_queue)
    assert caller.what_is_in("statusq", peek=True)[1] == [b"3", b"4"]


def test_a_status_as_long_as_any_may_be_is_no_junk(
    driver: ManagerDriver, caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    send_whole(caller, queue)
    taking = caller.number_for()
    take_large(caller, queue, taking, status_queue=status_queue)
    caller.call(message_frames.Abort(taking))
    (status,) = look_into(driver.manager).state.queues.named("statusq").index.everything()
    driver.manager.notices()
    for longest, junk in ((0, 0), (-1, 1)):
        monkeypatch.setattr(statuses, "STATUS_BYTES_MAX", unpack(status).length + longest)
        taking = caller.number_for()
        take_large(caller, queue, taking, status_queue=status_queue)
        told = [each.kind for each in driver.manager.notices()]
        assert told.count(NoticeKind.STATUS_JUNK) == junk
        caller.call(message_frames.Abort(taking))


@pytest.mark.parametrize("creates", [True, False])
def test_a_missing_status_queue_is_made_only_if_the_manager_may_and_a_known_one_is_found(
    tmp_path: Path, *, creates: bool
):
    caller = ManagerDriver(tmp_path / "data", create_status_queue=creates).session()
    caller.create("known")
    asked = queue_frames.OpenQueue("known", for_status=True)
    assert caller.call(asked).number == caller.open("known")
    for name in ("fresh", "known;status"):
        asked = queue_frames.OpenQueue(name, for_status=True)
        if creates or ";" in name:
            assert caller.call(asked).number == caller.open(name)
            assert caller.call(asked).number == caller.open(name)
        else:
            with pytest.raises(errors.StatusQueueMissing, match="configured not to create it"):
                caller.call(asked)
    if creates:
        info = caller.call(queue_frames.DescribeQueue("fresh")).info
        assert (info.transactional, bool(info.label)) == (True, True)
    for name, why in (("nowhere;status", "cannot be created"), ("dray://far:1/q", "is on another")):
        with pytest.raises(errors.StatusQueueMissing, match=why):
            caller.call(queue_frames.OpenQueue(name, for_status=True))


def test_where_a_quota_has_no_room_for_a_status_the_message_is_received_all_the_same(
    caller: Caller,
):
    queue, status_queue = caller.open("files"), caller.create("full", quota=100)
    sequence, taking = send_whole(caller, queue), caller.number_for()
    assert take_large(caller, queue, taking, status_queue=status_queue).sequence == sequence
    caller.call(message_frames.Abort(taking))
    assert said(caller, "full") == []


def test_where_the_disk_has_no_room_for_a_status_the_message_is_received_all_the_same(
    driver: ManagerDriver, caller: Caller, monkeypatch: pytest.MonkeyPatch
):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    sequence, taking = send_whole(caller, queue), caller.number_for()
    with monkeypatch.context() as patch:
        patch.setattr(driver.disk, "free_bytes", lambda: 0)
        driver.advance(60.0)
        assert take_large(caller, queue, taking, status_queue=status_queue).sequence == sequence
        caller.call(message_frames.Abort(taking))
        assert said(caller, "statusq") == []


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("files", "'files' cannot be the status queue of 'files': it has another use"),
        ("files;journal", "it has another use"),
        ("large", "it has large messages"),
        ("plain", "is not transactional; create it anew"),
    ],
)
def test_a_queue_that_cannot_be_a_status_queue_is_refused_with_the_reason(
    caller: Caller, name: str, why: str
):
    caller.create("plain", transactional=False)
    send_whole(caller, caller.create("large"))
    queue = caller.open("files")
    send_whole(caller, queue)
    with pytest.raises(errors.StatusQueueMissing, match=why):
        take_large(caller, queue, caller.number_for(), status_queue=caller.open(name))
    assert len(caller.what_is_in("large", peek=True)[1]) == 4


def test_a_status_is_taken_back_with_the_message_that_moves_aside(
    driver: ManagerDriver, caller: Caller
):
    """Two large messages are held with their statuses; one of them cannot be read."""
    queue, status_queue = caller.open("files"), caller.open("statusq")
    sequences = [send_whole(caller, queue), send_whole(caller, queue)]
    taking = caller.number_for()
    found = [take_large(caller, queue, taking, status_queue=status_queue) for _ in range(2)]
    assert [each.sequence for each in found] == sequences
    aside = caller.open("files;unreadable")
    moved = large_frames.LargeMove(
        queue, found[1].header.lookup_id, aside, status_queue, unreadable=True
    )
    assert caller.call(moved) == frames.Done(4)
    (notice,) = driver.manager.notices()
    assert (notice.kind, notice.subject) == (NoticeKind.UNREADABLE_LARGE, "files")
    assert "was moved to 'files;unreadable'" in notice.sentence
    caller.call(message_frames.Abort(taking))
    assert said(caller, "statusq") == [("files", sequences[0], Verdict.COMPLETE)]
    (status,) = look_into(driver.manager).state.queues.named("statusq").index.everything()
    assert unpack(status).length > 0


def test_a_message_that_has_a_status_is_given_to_one_receiver_only(caller: Caller):
    queue, status_queue = caller.open("files"), caller.open("statusq")
    send_whole(caller, queue)
    taking = caller.number_for()
    take_large(caller, queue, taking, status_queue=status_queue)
    caller.call(message_frames.Abort(taking))
    take_large(caller, queue, caller.number_for())
    with pytest.raises(errors.ReceiveTimeout):
        take_large(caller, queue, caller.number_for(), status_queue=status_queue)
