"""Large messages at the manager: in flight, whole, holed; taken once, told once (R87, R90, R93)."""

from __future__ import annotations

import pytest

from dray import errors
from dray.manager.change.quarantine import QUARANTINE_NAME
from dray.manager.entries import unpack
from dray.model.classes import Part
from dray.model.limits import BATCH_MESSAGES_MAX
from dray.model.message import Message
from dray.store.heap.heap import file_name
from dray.wire import frames, large_frames, message_frames, queue_frames, selections
from dray.wire.record import PartMark
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver


def send_large(
    caller: Caller,
    queue: int,
    fragments: int,
    transaction: int,
    *,
    trailer: bool = True,
    **options: object,
) -> int:
    """Send a large message of one-byte fragments; gives its sequence and uses 2 or 3 frames."""
    header = Message(app_specific=-9998, correlation_id=f"order {fragments}", **options)
    mark = PartMark(Part.HEADER)
    (sequence,) = caller.send(queue, header, transaction=transaction, marks=(mark,), guarded=False)
    parts = [Message(body=bytes([n]), app_specific=n, **options) for n in range(1, fragments + 1)]
    marks = (PartMark(Part.FRAGMENT, sequence),) * fragments
    caller.send(queue, *parts, transaction=transaction, marks=marks, guarded=False)
    if trailer:
        end = PartMark(Part.TRAILER, sequence, fragments)
        trailer_message = Message(app_specific=-9999, **options)
        caller.send(queue, trailer_message, transaction=transaction, marks=(end,), guarded=False)
    return sequence


def take_large(
    caller: Caller, queue: int, transaction: int, **options: object
) -> large_frames.LargeFound:
    found = caller.call(large_frames.LargeReceive(queue, transaction, 0.0, **options))
    assert isinstance(found, large_frames.LargeFound)
    return found


def test_a_whole_large_message_is_taken_by_one_and_gone_at_commit(driver: ManagerDriver) -> None:
    caller, other = driver.session(), driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 3, transaction)
    caller.commit(transaction, 3)
    taking = caller.number_for()
    found = take_large(caller, queue, taking)
    assert (found.sequence, len(found.parts)) == (sequence, 3)
    with pytest.raises(errors.ReceiveTimeout):
        take_large(other, queue, other.number_for())
    _, record = caller.call_whole(
        large_frames.ReadPart(queue, found.parts[1].lookup_id, 0, found.parts[1].length)
    )
    assert record.endswith(b"\x02")
    nothing = large_frames.ReadPart(queue, found.parts[1].lookup_id, 0, 0)
    assert caller.call_whole(nothing) == (large_frames.Range(), b"")
    with pytest.raises(errors.MessageNotFound):
        other.call(large_frames.ReadPart(queue, found.parts[1].lookup_id, 0, 1))
    caller.commit(taking, 0)
    assert driver.store.live_bytes == 0
    with pytest.raises(errors.ReceiveTimeout):
        take_large(other, queue, other.number_for())


def test_the_parts_of_large_messages_count_among_the_messages_of_the_transaction_that_takes_them(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    for _ in range(2):
        send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 6)
    most = "dray.manager.transactions.open_transaction.TRANSACTION_OPERATIONS_MAX"
    for count, fits in ((6, True), (5, False)):
        monkeypatch.setattr(most, count)
        taking = caller.number_for()
        take_large(caller, queue, taking)
        if fits:
            take_large(caller, queue, taking)
        else:
            with pytest.raises(errors.TransactionAborted, match="commit more often"):
                take_large(caller, queue, taking)
        caller.call(message_frames.Abort(taking))


def test_an_aborted_large_receive_is_delivered_again_first(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("files")
    sequences = []
    for fragments in (2, 3):
        transaction = caller.number_for()
        sequences.append(send_large(caller, queue, fragments, transaction))
        caller.commit(transaction, 3)
    taking = caller.number_for()
    assert take_large(caller, queue, taking).sequence == sequences[0]
    caller.call(message_frames.Abort(taking))
    taking = caller.number_for()
    assert take_large(caller, queue, taking).sequence == sequences[0]
    assert take_large(caller, queue, taking).sequence == sequences[1]


def take_some(caller: Caller, queue: int, count: int) -> tuple[int, list[int], bool, bytes]:
    """Take several; the first transaction, the sequences, whether bodies came, and the body."""
    transaction = caller.number_for()
    for _ in range(count - 1):
        caller.number_for()
    taken, body = caller.call_whole(large_frames.LargeReceive(queue, transaction, 0.0, count=count))
    assert isinstance(taken, large_frames.LargeTaken)
    return transaction, [each.sequence for each in taken.found], taken.whole, body


def test_several_are_taken_together_and_each_in_a_transaction_of_its_own(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequences = [send_large(caller, queue, 2, transaction) for _ in range(4)]
    caller.commit(transaction, 12)
    first, found, whole, body = take_some(caller, queue, 3)
    assert (found, whole) == (sequences[:3], True)
    assert body.count(b"\x01")
    assert take_some(other, queue, 3)[1] == sequences[3:]
    caller.commit(first, 0)
    caller.commit(first + 2, 0)
    caller.call(message_frames.Abort(first + 1))
    assert take_some(caller, queue, 3)[1] == [sequences[1]]


def test_one_with_a_hole_or_a_long_one_is_not_taken_together_with_others(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequences = [send_large(caller, queue, number, transaction) for number in (1, 30, 1, 2)]
    caller.commit(transaction, 12)
    monkeypatch.setattr("dray.manager.requests.large_messages.LARGE_TAKEN_BYTES_MAX", 1_000)
    assert take_some(caller, queue, 5)[1:3] == (sequences[:1], True)
    first, found, whole, _ = take_some(caller, queue, 5)
    assert (found, whole) == (sequences[1:2], False), "a long one comes without its body"
    caller.call(message_frames.Abort(first))
    caller.commit(take_some(caller, queue, 5)[0], 0)
    holed = take_large(caller, queue, (taking := caller.number_for())).parts[0].lookup_id
    caller.call(message_frames.Abort(taking))
    caller.receive(queue, select=selections.SelectAt(holed + 3), guarded=False)
    assert take_some(caller, queue, 5)[1] == sequences[2:3]


@pytest.mark.parametrize("options", [{"count": 0}, {"count": 65}, {"count": 2, "peek": True}])
def test_a_count_that_nobody_can_take_is_refused(
    driver: ManagerDriver, options: dict[str, object]
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    with pytest.raises(errors.InvalidArgument, match="count"):
        caller.call(large_frames.LargeReceive(queue, caller.number_for(), 0.0, **options))


def test_large_messages_are_found_again_after_a_crash(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 4, transaction)
    caller.commit(transaction, 3)
    driver.crash()
    caller = driver.session()
    select = selections.SelectByCorrelation("ORDER 4")
    found = take_large(caller, caller.open("files"), caller.number_for(), select=select)
    assert found.sequence == sequence


@pytest.mark.parametrize(
    ("taken", "missing"),
    [
        ([1], [[1, 1]]),
        ([2, 3], [[2, 3]]),
        ([5], [[5, 5]]),
        ([0], ["header"]),
        ([6], ["trailer"]),
        ([1, 3, 5], [[1, 1], [3, 3], [5, 5]]),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_hole_is_told_once_by_name_and_the_next_message_is_unharmed(
    driver: ManagerDriver, taken: list[int], missing: list[object], restarted: bool
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    sequences = []
    for fragments in (5, 2):
        transaction = caller.number_for()
        sequences.append(send_large(caller, queue, fragments, transaction))
        caller.commit(transaction, 3)
    envelopes, _ = caller.receive(queue, peek=True, guarded=False)
    for at in taken:
        select = selections.SelectAt(envelopes[at].lookup_id)
        caller.receive(queue, select=select, guarded=False)
    if restarted:
        driver.crash()
        caller = driver.session()
        queue = caller.open("files")
    with pytest.raises(errors.LargeMessageHole) as looked:
        take_large(caller, queue, 0, peek=True)
    with pytest.raises(errors.LargeMessageHole) as raised:
        take_large(caller, queue, caller.number_for())
    assert raised.value.missing == looked.value.missing == missing
    assert raised.value.sequence_id == f"{driver.manager_id}\\{sequences[0]}"
    assert take_large(caller, queue, caller.number_for()).sequence == sequences[1]
    driver.crash()
    caller = driver.session()
    found = take_large(caller, caller.open("files"), caller.number_for())
    assert found.sequence == sequences[1]


def test_a_reader_of_parts_that_aborts_leaves_no_hole(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 3)
    reading = caller.number_for()
    caller.receive(queue, transaction=reading, max_messages=2, guarded=False)
    with pytest.raises(errors.ReceiveTimeout):
        take_large(caller, queue, caller.number_for())
    caller.call(message_frames.Abort(reading))
    assert take_large(caller, queue, caller.number_for()).sequence == sequence


def test_plain_and_large_messages_do_not_mix(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    with pytest.raises(errors.LargeMessageMixing):
        caller.send(queue, Message(body=b"plain"))
    with pytest.raises(errors.LargeMessageMixing):
        caller.receive(queue)


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_part_is_not_moved_away_from_its_large_message_by_who_moves_messages(
    driver: ManagerDriver, in_transaction: bool
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    aside = caller.open("files;aside")
    sequence = send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    within = caller.number_for() if in_transaction else 0
    with pytest.raises(errors.LargeMessageMixing, match="raw handle"):
        caller.call(message_frames.Move(queue, 1, aside, within))
    assert take_large(caller, queue, caller.number_for()).sequence == sequence


def test_settling_takes_whole_large_messages_only(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue = caller.create("files")
    for fragments in (1, 2, 3):
        transaction = caller.number_for()
        send_large(caller, queue, fragments, transaction)
        caller.commit(transaction, 3)
    listed = caller.call(large_frames.LargeList(queue, 0, 10))
    assert [entry.fragment_count for entry in listed.entries] == [1, 2, 3]
    upto = listed.entries[1].last_lookup_id
    assert caller.call(message_frames.Settle(queue, upto, 0)) == frames.Done(7)
    assert caller.call(message_frames.Settle(queue, upto, 0)) == frames.Done(0)
    left = caller.call(large_frames.LargeList(queue, 0, 10))
    assert [entry.fragment_count for entry in left.entries] == [3]


def test_a_list_stays_in_order_when_a_first_part_is_taken(driver: ManagerDriver) -> None:
    """Two interleaved by their transactions' order; the first of them loses its header."""
    caller = driver.session()
    queue = caller.create("files")
    for fragments in (2, 3):
        transaction = caller.number_for()
        send_large(caller, queue, fragments, transaction)
        caller.commit(transaction, 3)
    listed = caller.call(large_frames.LargeList(queue, 0, 10))
    header = selections.SelectAt(listed.entries[0].first_lookup_id)
    caller.receive(queue, select=header, guarded=False)
    listed = caller.call(large_frames.LargeList(queue, 0, 10))
    firsts = [entry.first_lookup_id for entry in listed.entries]
    assert firsts == sorted(firsts) == [2, 5]
    assert listed.entries[0].missing == ["header"]


def listed(caller: Caller, queue: int, most: int = 10, **options: object) -> list[int]:
    found = caller.call(large_frames.LargeList(queue, options.pop("after", 0), most, **options))
    return [each.sequence for each in found.entries]


def test_a_list_ends_where_messages_or_bytes_are_reached_and_has_one_message_in_any_case(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, sequences = caller.create("files"), []
    for fragments in (2, 3, 4):
        transaction = caller.number_for()
        sequences.append(send_large(caller, queue, fragments, transaction))
        caller.commit(transaction, 3)
    entries = caller.call(large_frames.LargeList(queue, 0, 10)).entries
    assert [each.fragment_count for each in entries] == [2, 3, 4]
    two = entries[0].size + entries[1].size
    assert listed(caller, queue, 1) == sequences[:1]
    assert listed(caller, queue, BATCH_MESSAGES_MAX) == sequences
    assert listed(caller, queue, max_bytes=two) == sequences[:2]
    assert listed(caller, queue, max_bytes=two - 1) == sequences[:1]
    assert listed(caller, queue, max_bytes=1) == sequences[:1]
    assert listed(caller, queue, after=entries[0].first_lookup_id) == sequences[1:]
    assert listed(caller, queue, after=entries[0].first_lookup_id - 1) == sequences
    for most in (0, BATCH_MESSAGES_MAX + 1):
        with pytest.raises(errors.Misuse, match=f"max_messages must be 1 to .*, not {most}"):
            listed(caller, queue, most)


def test_a_list_with_held_messages_knows_as_much_of_them_as_of_others(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 2, transaction)
    send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 6)
    before = caller.call(large_frames.LargeList(queue, 0, 10)).entries
    assert [each.transaction_size for each in before] == [2, 2]
    take_large(caller, queue, caller.number_for())
    assert listed(caller, queue) == []
    assert caller.call(large_frames.LargeList(queue, 0, 10, held=True)).entries == before


def test_a_part_is_put_aside_only_if_its_holder_reports_it_and_it_is_damaged(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 3)
    found = take_large(caller, queue, caller.number_for())
    report = large_frames.PartDamaged(queue, found.parts[0].lookup_id)
    for asker in (caller, other):
        assert asker.call(report) == frames.Done(0), "it is whole"
    assert caller.call(large_frames.PartDamaged(queue, 999)) == frames.Done(0)
    packed, _ = look_into(driver.manager).state.queues.numbered(queue).index.held(report.lookup_id)
    entry = unpack(packed)
    with (driver.path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"?")
    assert other.call(report) == frames.Done(0), "it holds nothing"
    assert caller.call(report) == frames.Done(1)
    assert caller.call(report) == frames.Done(0)


def test_of_the_large_messages_that_one_holds_the_damaged_one_alone_has_a_hole(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction, taking = caller.create("files"), caller.number_for(), caller.number_for()
    sequences = [send_large(caller, queue, 2, transaction) for _ in range(3)]
    caller.commit(transaction, 9)
    part = [take_large(caller, queue, taking).parts[0].lookup_id for _ in sequences][1]
    held = look_into(driver.manager).state.queues.numbered(queue).index.held(part)
    entry = unpack(held[0])
    with (driver.path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        file.write(b"?")
    assert caller.call(large_frames.PartDamaged(queue, part)) == frames.Done(1)
    caller.call(message_frames.Abort(taking))
    listed = caller.call(large_frames.LargeList(queue, 0, 10)).entries
    assert [(each.sequence, each.missing) for each in listed] == [
        (sequences[0], []),
        (sequences[1], [[1, 1]]),
        (sequences[2], []),
    ]


def test_a_large_message_is_received_by_its_sequence_only_while_it_is_free(
    driver: ManagerDriver,
) -> None:
    caller, other = driver.session(), driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequences = [send_large(caller, queue, 2, transaction) for _ in range(2)]
    caller.commit(transaction, 6)

    def take(asker: Caller, number: int) -> int:
        name = f"{driver.manager_id}\\{number}"
        return take_large(
            asker, queue, asker.number_for(), select=selections.SelectBySequence(name)
        ).sequence

    assert take(caller, sequences[1]) == sequences[1]
    for gone in (sequences[1], 999):
        with pytest.raises(errors.MessageNotFound):
            take(other, gone)
    assert take(other, sequences[0]) == sequences[0]


def test_a_large_message_is_received_by_its_correlation_id_whatever_the_case(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequences = [send_large(caller, queue, count, transaction) for count in (2, 3)]
    caller.commit(transaction, 6)
    with pytest.raises(errors.MessageNotFound):
        take_large(
            caller, queue, caller.number_for(), select=selections.SelectByCorrelation("order 4")
        )
    found = take_large(
        caller, queue, caller.number_for(), select=selections.SelectByCorrelation("ORDER 3")
    )
    assert found.sequence == sequences[1]


def test_a_large_message_that_is_held_is_not_purged_by_its_id(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 2, transaction)
    caller.commit(transaction, 3)
    purge = queue_frames.PurgeQueue(queue, f"{driver.manager_id}\\{sequence}", 1)
    taking = caller.number_for()
    take_large(caller, queue, taking)
    with pytest.raises(errors.MessageNotFound, match="nothing of message"):
        caller.call(purge)
    caller.call(message_frames.Abort(taking))
    assert caller.call(purge) == frames.Done(4)
    assert driver.store.live_bytes == 0


def sizes_of(found: large_frames.LargeFound) -> int:
    ends = found.header.length + found.trailer.length
    return ends + sum(each.length for each in found.parts)


def test_large_messages_are_taken_together_up_to_the_last_byte_of_a_frame(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequences = [send_large(caller, queue, 2, transaction) for _ in range(3)]
    caller.commit(transaction, 9)
    taken, ends = caller.call_whole(
        large_frames.LargeReceive(queue, (taking := caller.number_for()), 0.0)
    )
    one = sizes_of(taken)
    caller.call(message_frames.Abort(taking))
    for most, count, is_whole in (
        (2 * one, 2, True),
        (2 * one - 1, 1, True),
        (one, 1, True),
        (one - 1, 1, False),
    ):
        monkeypatch.setattr("dray.manager.requests.large_messages.LARGE_TAKEN_BYTES_MAX", most)
        first, found, whole, body = take_some(caller, queue, 2)
        assert (found, whole) == (sequences[:count], is_whole)
        assert whole or body == ends
        for at in range(count):
            caller.call(message_frames.Abort(first + at))


def test_a_receive_of_a_large_message_goes_on_waiting_when_a_small_one_comes(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue = caller.create("files")
    waiting = caller.ask(large_frames.LargeReceive(queue, caller.number_for(), 60.0))
    caller.send(queue, Message(body=b"small"))
    assert not caller.answers(waiting)
    transaction = caller.number_for()
    sequence = send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    (answer,) = caller.answers(waiting)
    assert answer.head.sequence == sequence


def test_a_whole_large_message_cannot_be_rejected_as_one_with_a_hole(driver: ManagerDriver) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    sequence = send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    with pytest.raises(errors.ReceiveTimeout):
        caller.call(large_frames.LargeReceive(queue, caller.number_for(), 0.0, reject=True))
    assert take_large(caller, queue, caller.number_for()).sequence == sequence


def flip(driver: ManagerDriver, queue: str, at: int) -> None:
    """Change the last byte of a message on the disk."""
    entry = unpack(look_into(driver.manager).state.queues.named(queue).index.everything()[at])
    with (driver.path / "storage" / file_name(entry.file)).open("r+b") as file:
        file.seek(entry.offset + entry.length - 1)
        byte = file.read(1)[0]
        file.seek(entry.offset + entry.length - 1)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("end", [0, 2])
def test_a_large_message_with_a_damaged_end_is_left_when_it_is_looked_at_and_lost_when_it_is_taken(
    driver: ManagerDriver, end: int
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    flip(driver, "files", end)
    driver.leave_unchecked()
    queues = look_into(driver.manager).state.queues
    for _ in range(2):
        with pytest.raises(errors.LargeMessageHole, match="it stays in the queue"):
            take_large(caller, queue, 0, peek=True)
    assert queues.find(QUARANTINE_NAME) is None
    with pytest.raises(errors.LargeMessageHole, match="its other parts are rejected"):
        take_large(caller, queue, caller.number_for())
    assert len(queues.named(QUARANTINE_NAME).index.everything()) == 1


@pytest.mark.parametrize("name", ["dray://elsewhere:7340/files", "system$;deadxact"])
def test_nothing_is_taken_from_a_queue_whose_messages_only_the_manager_takes(
    driver: ManagerDriver, name: str
) -> None:
    caller = driver.session()
    queue = caller.open(name)
    head = large_frames.LargeReceive(queue, caller.number_for(), 0.0)
    if name.startswith("dray:"):
        for taking in (head, message_frames.Settle(queue, 1, 0)):
            with pytest.raises(errors.AccessDenied, match="can only be peeked at"):
                caller.call(taking)
    with pytest.raises(errors.ReceiveTimeout):
        caller.call(large_frames.LargeReceive(queue, 0, 0.0, peek=True))


def test_a_range_of_a_message_that_its_asker_holds_waits_for_no_sync_and_of_others_it_does(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 1, transaction)
    caller.commit(transaction, 3)
    taking = caller.number_for()
    (part,) = take_large(caller, queue, taking).parts
    read = large_frames.ReadPart(queue, part.lookup_id, 0, part.length)
    (held,) = caller.answers(caller.ask(read))
    caller.call(message_frames.Abort(taking))
    (available,) = caller.answers(caller.ask(read))
    assert (held.held, available.held) == (False, True)


def test_of_a_large_message_without_its_trailer_the_list_counts_the_fragments_that_are_there(
    driver: ManagerDriver,
) -> None:
    caller = driver.session()
    queue, transaction = caller.create("files"), caller.number_for()
    send_large(caller, queue, 2, transaction, trailer=False)
    caller.commit(transaction, 2)
    transaction = caller.number_for()
    send_large(caller, queue, 3, transaction)
    caller.commit(transaction, 3)
    listed = caller.call(large_frames.LargeList(queue, 0, 10)).entries
    assert [each.fragment_count for each in listed] == [2, 3]
    with pytest.raises(errors.LargeMessageHole) as raised:
        take_large(caller, queue, 0, peek=True, repair=True)
    assert "could not be repaired" not in str(raised.value), "nobody has tried"
