"""Express messages: like others while the manager runs, gone after it (S3-11, R9, R70, R72)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray import errors
from dray.manager.change import express as express_messages
from dray.manager.events import Answer
from dray.manager.facts import Committed, PositionsReserved, decode_fact
from dray.manager.notices import NoticeKind
from dray.model.classes import Acknowledge
from dray.model.message import Message
from dray.store.kinds import Kind, kind_of
from dray.wire import frames, message_frames, queue_frames, selections
from dray.wire.backup_frames import Backup
from tests.inspection import look_into
from tests.unit.manager.conftest import Caller, ManagerDriver

RECORD_BYTES = 64
"""Of a message without body or properties."""


def express(*bodies: str, **properties: object) -> list[Message]:
    return [Message(body=body.encode(), recoverable=False, **properties) for body in bodies]


def lasting(*bodies: str, **properties: object) -> list[Message]:
    return [Message(body=body.encode(), recoverable=True, **properties) for body in bodies]


def bodies(caller: Caller, queue: int, **options: object) -> list[bytes]:
    return caller.what_is_in(queue, peek=True, **options)[1]


def positions(caller: Caller, queue: int) -> list[int]:
    return [each.lookup_id for each in caller.receive(queue, peek=True)[0]]


def info(caller: Caller, name: str):
    return caller.call(queue_frames.DescribeQueue(name)).info


def used(caller: Caller) -> tuple[int, int]:
    about = caller.call(queue_frames.Describe()).info
    return about.bytes_used, about.journal_bytes_used


class Facts:
    """What is said to the log from here on."""

    def __init__(self, driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said = []
        append = driver.store.append
        monkeypatch.setattr(
            driver.store,
            "append",
            lambda fact: (self.said.append(decode_fact(bytes(fact))), append(fact)),
        )


@pytest.fixture
def caller(driver: ManagerDriver) -> Caller:
    return driver.session()


@pytest.fixture
def queue(caller: Caller) -> int:
    return caller.create("news", transactional=False)


# ------------------------------------------------------------------------------ what is durable


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_express_message_is_gone_after_a_restart_and_a_recoverable_one_is_not(
    driver, caller, queue, checkpoint
):
    caller.send(queue, *express("a"), *lasting("b"), *express("c", "d"), *lasting("e"))
    assert bodies(caller, queue) == [b"a", b"b", b"c", b"d", b"e"]
    if checkpoint:
        driver.store.checkpoint(driver.manager.snapshot())
    driver.crash()
    assert bodies(driver.session(), queue) == [b"b", b"e"]


def test_an_orderly_end_is_a_restart_too(driver, caller, queue):
    caller.send(queue, *express("a"), *lasting("b"))
    driver.store.close(driver.manager.snapshot())
    driver.start()
    assert bodies(driver.session(), queue) == [b"b"]


def test_one_that_says_nothing_of_it_is_recoverable(driver, caller, queue):
    caller.send(queue, Message(body=b"said nothing"))
    driver.crash()
    assert bodies(driver.session(), queue) == [b"said nothing"]


def test_in_a_transactional_queue_every_message_is_recoverable(driver, caller):
    queue = caller.create("orders")
    caller.send(queue, *express("alone"))
    transaction = caller.number_for()
    caller.send(queue, *express("in one"), transaction=transaction)
    caller.commit(transaction, 1)
    assert info(caller, "orders").express_count == 0
    driver.crash()
    assert bodies(driver.session(), queue) == [b"alone", b"in one"]


def test_it_lies_in_memory_and_beyond_the_budget_in_r_files(tmp_path):
    driver = ManagerDriver(tmp_path / "data", express_bytes=1 << 17)
    caller = driver.session()
    queue = caller.create("news", transactional=False)
    body = "x" * 50_000
    for _ in range(2):
        caller.send(queue, *express(body))
    assert r_files(driver) == []
    for _ in range(4):
        caller.send(queue, *express(body))
    assert r_files(driver) != []
    assert bodies(caller, queue) == [body.encode()] * 6
    assert caller.receive(queue)[1] == [body.encode()] * 6
    assert r_files(driver) == []
    assert driver.store.live_bytes == 0
    for _ in range(6):
        caller.send(queue, *express(body))
    driver.crash()
    assert r_files(driver) == []


def r_files(driver: ManagerDriver) -> list[str]:
    return sorted(each.name for each in Path(driver.path).rglob("r*.mq"))


def test_sending_and_receiving_express_messages_says_nothing_to_the_log(
    driver, caller, queue, monkeypatch
):
    caller.send(queue, *express("the first, which reserves positions"))
    facts, before = Facts(driver, monkeypatch), driver.store.counters
    caller.send(queue, *express(*"abcdef"))
    assert caller.receive(queue, max_messages=3)[1][1:] == [b"a", b"b"]
    assert caller.call(queue_frames.PurgeQueue(queue)) == frames.Done(4)
    assert facts.said == []
    assert driver.store.counters.syncs == before.syncs
    assert driver.store.live_bytes == 0


def test_a_claim_of_express_messages_says_nothing_to_the_log_and_its_outcome_is_known(
    driver, caller, queue, monkeypatch
):
    caller.send(queue, *express("a"))
    facts, number = Facts(driver, monkeypatch), caller.number_for()
    caller.receive(queue, transaction=number, claim=True)
    caller.call(message_frames.Commit(number, 0))
    assert facts.said == []
    told = caller.call(message_frames.Outcome(f"{driver.manager.id}\\{number}"))
    assert told == message_frames.OutcomeIs("committed")


def test_the_answer_to_an_express_send_waits_for_no_sync_and_every_other_does(
    driver, caller, queue
):
    def held() -> bool:
        return next(each for each in reversed(driver.effects) if isinstance(each, Answer)).held

    caller.send(queue, *express("a"))
    assert not held()
    caller.send(queue, *express("b"), *lasting("c"))
    assert held()
    caller.receive(queue)
    assert held()
    caller.send(queue, *express("d"))
    caller.ask(message_frames.Send(queue, 0, [], []))
    assert held(), "an empty send waits for all that came before it"


def test_a_backup_holds_no_express_message(driver, caller, queue):
    caller.send(queue, *express("a"), *lasting("b"))
    begun = caller.call(Backup())
    assert begun.messages == 1
    assert begun.record_bytes == RECORD_BYTES + 1


# ------------------------------------------------------------------------------------ positions


def test_no_position_is_given_twice_although_express_arrivals_log_nothing(driver, caller, queue):
    seen = []
    for _ in range(3):
        caller.send(queue, *express("a", "b"), *lasting("c"), *express("d"))
        seen += positions(caller, queue)
        driver.crash()
        caller = driver.session()
        caller.call(queue_frames.PurgeQueue(queue))
    assert len(set(seen)) == len(seen) == 12
    assert seen == sorted(seen)


def test_recoverable_messages_keep_their_positions_whatever_express_ones_came_between(
    driver, caller, queue
):
    for number in range(4):
        caller.send(queue, *express(f"e{number}"), *lasting(f"r{number}"))
    every = dict(zip(bodies(caller, queue), positions(caller, queue), strict=True))
    driver.crash()
    caller = driver.session()
    left = dict(zip(bodies(caller, queue), positions(caller, queue), strict=True))
    assert left == {body: at for body, at in every.items() if body.startswith(b"r")}
    assert len(left) == 4


def test_positions_are_reserved_a_block_at_a_time(driver, caller, queue, monkeypatch):
    monkeypatch.setattr(express_messages, "EXPRESS_POSITIONS_RESERVED", 10)
    facts = Facts(driver, monkeypatch)
    for _ in range(3):
        caller.send(queue, *express("a", "b"))
    assert [type(each) for each in facts.said] == [PositionsReserved]
    caller.send(queue, *lasting("c"), *express("d"))
    assert [type(each) for each in facts.said] == [PositionsReserved, Committed, PositionsReserved]
    caller.send(queue, *express(*["e"] * 25))
    reserved = [each.upto for each in facts.said if isinstance(each, PositionsReserved)]
    assert reserved == [11, 22, 47]
    assert positions(caller, queue) == [*range(1, 7), 11, 12, *range(22, 47)]
    caller.send(queue, *express("f"))
    caller.send(queue, *express(*["g"] * 9))
    reserved = [each.upto for each in facts.said if isinstance(each, PositionsReserved)]
    assert reserved == [11, 22, 47, 57], "the last of a block is used like every other"


def test_the_last_position_of_a_queue_is_that_of_a_message_and_not_of_a_reserved_one(caller):
    queue = caller.create("news", transactional=False)
    caller.send(queue, *lasting("r"), *express("a", "b"))
    assert info(caller, "news").last_position == positions(caller, queue)[-1]


# ---------------------------------------------------------------------- like any other message


def test_express_and_recoverable_messages_stand_in_one_order(caller, queue):
    caller.send(
        queue,
        *express("low", priority=1),
        *lasting("high", priority=6),
        *express("higher", priority=7),
        *lasting("low too", priority=1),
    )
    assert bodies(caller, queue) == [b"higher", b"high", b"low", b"low too"]
    envelopes, _ = caller.receive(queue, peek=True)
    second = envelopes[1].lookup_id
    by_lookup = selections.SelectAt(second)
    assert caller.receive(queue, select=by_lookup)[1] == [b"high"]
    assert caller.receive(queue)[1] == [b"higher", b"low", b"low too"]


def test_what_is_of_one_priority_can_be_asked_for(caller, queue):
    caller.send(queue, *lasting("low", priority=1), *lasting("high", priority=6))
    caller.send(queue, *express("high too", priority=6))

    def of(priority: int, after: int = 0) -> list[bytes]:
        select = selections.SelectNext(after, priority)
        return caller.receive(queue, peek=True, select=select)[1]

    assert (of(6), of(1)) == ([b"high", b"high too"], [b"low"])
    assert of(6, after=2) == [b"high too"]
    with pytest.raises(errors.ReceiveTimeout):
        of(7)


def test_a_waiting_receiver_gets_an_express_message(driver, caller, queue):
    waiting = driver.session()
    request = waiting.ask(message_frames.Receive(queue, 0, None, 1))
    caller.send(queue, *express("at last"))
    (answer,) = waiting.answers(request)
    assert driver.body_of(answer)[RECORD_BYTES:] == b"at last"


def test_a_large_express_body_outlives_its_place_until_it_has_gone_out(driver, caller, queue):
    first, second = "a" * 60_000, "b" * 60_000
    caller.send(queue, *express(first))
    request = caller.ask(message_frames.Receive(queue, 0, 0.0, 1))
    caller.send(queue, *express(second))
    (answer,) = caller.answers(request)
    assert driver.body_of(answer)[RECORD_BYTES:] == first.encode()


def test_quotas_count_express_messages_to_the_byte_and_after_a_restart_not_at_all(driver, caller):
    queue = caller.create("news", transactional=False, quota=3 * RECORD_BYTES)
    caller.send(queue, *express(""), *lasting(""))
    assert used(caller) == (2 * RECORD_BYTES, 0)
    with pytest.raises(errors.QuotaExceeded) as raised:
        caller.send(queue, *express("", ""))
    assert (raised.value.used, raised.value.requested) == (2 * RECORD_BYTES, 2 * RECORD_BYTES)
    caller.send(queue, *express(""))
    assert info(caller, "news").byte_count == 3 * RECORD_BYTES
    assert (info(caller, "news").express_count, info(caller, "news").express_bytes) == (2, 128)
    driver.crash()
    caller = driver.session()
    assert used(caller) == (RECORD_BYTES, 0)
    assert info(caller, "news").express_count == 0
    caller.send(queue, *express("", ""))
    with pytest.raises(errors.QuotaExceeded):
        caller.send(queue, *lasting(""))


def test_a_batch_that_does_not_fit_the_disk_leaves_nothing_of_either_kind(
    driver, caller, queue, monkeypatch
):
    place = driver.store.place

    def no_room_that_lasts(data, kind=Kind.RECOVERABLE):
        if kind is Kind.RECOVERABLE:
            raise errors.StoreFull("the disk is full", file="p")
        return place(data, kind)

    monkeypatch.setattr(driver.store, "place", no_room_that_lasts)
    with pytest.raises(errors.StoreFull):
        caller.send(queue, *express("a"), *lasting("b"))
    assert driver.store.live_bytes == 0
    assert bodies(caller, queue) == []


def test_an_express_message_expires(driver, caller, queue):
    caller.send(queue, *express("a", time_to_be_received=5.0), *express("b"))
    driver.advance(6)
    assert bodies(caller, queue) == [b"b"]
    assert driver.store.live_bytes == RECORD_BYTES + 1


def test_an_express_message_moves_between_sub_queues_in_memory(driver, caller, queue, monkeypatch):
    sub = caller.open("news;later")
    caller.send(queue, *express("a", "b"), *lasting("c"))
    # Each of the two queues reserves positions once.
    caller.call(message_frames.Move(queue, positions(caller, queue)[0], sub, 0))
    facts = Facts(driver, monkeypatch)
    caller.call(message_frames.Move(queue, positions(caller, queue)[0], sub, 0))
    assert facts.said == []
    caller.call(message_frames.Move(queue, positions(caller, queue)[0], sub, 0))
    assert bodies(caller, sub) == [b"a", b"b", b"c"]
    moves = [each.move_count for each in caller.receive(sub, peek=True)[0]]
    assert moves == [1, 1, 1]
    assert used(caller) == (3 * (RECORD_BYTES + 1), 0)
    driver.crash()
    caller = driver.session()
    assert bodies(caller, sub) == [b"c"]
    assert bodies(caller, queue) == []


def test_deleting_the_queue_gives_up_its_express_messages(driver, caller, queue):
    caller.send(queue, *express("a"), *lasting("b"))
    caller.call(queue_frames.DeleteQueue("news"))
    assert driver.store.live_bytes == 0
    assert used(caller) == (0, 0)


# ------------------------------------------------------------------------ what is kept of them


def test_what_is_kept_of_an_express_message_lasts(driver, caller):
    queue = caller.create("news", transactional=False, journal=True)
    caller.send(queue, *express("both", use_journal_queue=True), *express("one"))
    caller.receive(queue)
    journal, computer = caller.open("news;journal"), caller.open("system$;journal")
    for _ in range(2):
        assert bodies(caller, journal) == [b"both", b"one"]
        assert bodies(caller, computer) == [b"both"]
        assert kinds(driver, journal) == [Kind.JOURNAL] * 2
        assert used(caller) == (2 * RECORD_BYTES + 7, RECORD_BYTES + 4)
        driver.crash()
        caller = driver.session()


def kinds(driver: ManagerDriver, queue: int) -> list[Kind]:
    index = look_into(driver.manager).state.queues.numbered(queue).index
    return [kind_of(extent.file) for extent, _ in places(index)]


def places(index):
    from dray.manager.entries import place_in

    return map(place_in, index.everything())


@pytest.mark.parametrize("how", ["expired", "purged"])
def test_a_dead_letter_of_an_express_message_lasts(driver, caller, queue, how):
    caller.send(
        queue, *express("dead", use_dead_letter_queue=True, time_to_be_received=5.0), *express("x")
    )
    if how == "expired":
        driver.advance(6)
    else:
        caller.call(queue_frames.PurgeQueue(queue))
    driver.crash()
    caller = driver.session()
    dead = caller.open("system$;deadletter")
    assert bodies(caller, dead) == [b"dead"]
    assert used(caller) == (0, RECORD_BYTES + len(record_extras(driver, dead)) + 4)


def record_extras(driver: ManagerDriver, queue: int) -> bytes:
    """The properties of the first record of a queue."""
    index = look_into(driver.manager).state.queues.numbered(queue).index
    extent, _ = next(places(index))
    record = driver.store.read(extent)
    return record[RECORD_BYTES : RECORD_BYTES + int.from_bytes(record[8:12], "little")]


def test_a_copy_of_what_was_damaged_meanwhile_is_not_made(tmp_path):
    driver = ManagerDriver(tmp_path / "data", express_bytes=0)
    caller = driver.session()
    queue = caller.create("news", transactional=False)
    caller.send(queue, *express("dead", use_dead_letter_queue=True))
    (name,) = r_files(driver)
    (path,) = Path(driver.path).rglob(name)
    image = bytearray(path.read_bytes())
    image[RECORD_BYTES + 1] ^= 1
    path.write_bytes(image)
    caller.call(queue_frames.PurgeQueue(queue))
    assert bodies(caller, caller.open("system$;deadletter")) == []
    assert info(caller, "system$;deadletter").message_count == 0
    driver.crash()


def test_a_damaged_express_message_is_named_and_goes(tmp_path):
    driver = ManagerDriver(tmp_path / "data", express_bytes=0)
    caller = driver.session()
    queue = caller.create("news", transactional=False)
    caller.send(queue, *express("damaged", "whole"))
    (name,) = r_files(driver)
    (path,) = Path(driver.path).rglob(name)
    image = bytearray(path.read_bytes())
    image[RECORD_BYTES + 1] ^= 1
    path.write_bytes(image)
    with pytest.raises(errors.StoreCorrupt, match=r"r0000001\.mq"):
        caller.receive(queue)
    assert caller.receive(queue)[1] == [b"whole"]
    assert any("is gone" in str(notice) for notice in driver.manager.notices())
    assert driver.store.live_bytes == 0


def test_acknowledgments_last_as_long_as_what_they_are_about(driver, caller, queue):
    answers = caller.create("answers", transactional=False)
    about = {"administration_queue": "answers", "acknowledge": Acknowledge.FULL_RECEIVE}
    arrival = {"administration_queue": "answers", "acknowledge": Acknowledge.POSITIVE_ARRIVAL}
    caller.send(queue, *express("a", **arrival), *lasting("b", **arrival))
    caller.send(queue, *express("c", **about), *lasting("d", **about))
    caller.receive(queue)
    assert len(bodies(caller, answers)) == 4
    assert info(caller, "answers").express_count == 2
    driver.crash()
    caller = driver.session()
    assert len(bodies(caller, answers)) == 2


def test_an_acknowledgment_in_a_transactional_queue_lasts_whatever_it_is_about(
    driver, caller, queue
):
    answers = caller.create("answers")
    caller.send(
        queue,
        *express("a", administration_queue="answers", acknowledge=Acknowledge.POSITIVE_ARRIVAL),
    )
    driver.crash()
    assert len(bodies(driver.session(), answers)) == 1


def test_an_express_dead_letter_for_which_there_is_no_room_is_lost_and_the_operator_is_told(
    driver: ManagerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy is all there is of it; a recoverable message stays where it lies."""
    caller = driver.session()
    queue = caller.create("orders", transactional=False)
    caller.send(queue, *express("a", use_dead_letter_queue=True))

    def full(*_: object) -> None:
        raise errors.StoreFull("the disk is full", file="p0000001.mq")

    with monkeypatch.context() as patch:
        patch.setattr(driver.store, "place", full)
        caller.call(queue_frames.PurgeQueue(queue))
    assert info(caller, "system$;deadletter").copies_skipped == 1
    assert caller.what_is_in("system$;deadletter") == ([], [])
    assert NoticeKind.DEAD_LETTER_LOST in [each.kind for each in driver.manager.notices()]
