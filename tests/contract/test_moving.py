"""Promises about messages that move between queues, and about dead letters that are sent again."""

from __future__ import annotations

import random

import pytest

import dray

BODY = random.Random(5).randbytes(2500)
DEAD = "system$;deadxact"
NOWHERE = "dray://127.0.0.1:9/nowhere"
SECONDS = 100


@pytest.fixture
def manager(face, tmp_path):
    with face.open(tmp_path / "data") as opened:
        opened.create_queue("statusq")
        yield opened


def in_queue(manager, name):
    return list(manager.queue(name).contents())


def dead_large(face, manager, body=BODY, **properties):
    heavy = manager.create_queue("heavy", exist_ok=True)
    id = face.LargeMessageQueue(heavy, fragment_size=1000).send(
        body, use_dead_letter_queue=True, **properties
    )
    heavy.purge()
    return id


def test_contents_show_a_large_message_as_one_without_its_body(face, manager):
    heavy = manager.create_queue("heavy")
    id = face.LargeMessageQueue(heavy, fragment_size=1000).send(BODY, label="load")
    (shown,) = heavy.contents()
    assert (shown.id, shown.label, shown.size, shown.parts) == (id, "load", 2500, 5)
    assert shown.wholeness is dray.Wholeness.WHOLE
    manager.queue("heavy", raw=True).receive_by_lookup_id(shown.lookup_id + 1)
    (holed,) = heavy.contents()
    assert (holed.wholeness, holed.parts) == (dray.Wholeness.HOLE, 4)


def test_parts_are_those_of_one_large_message_in_order(face, manager):
    heavy = manager.create_queue("heavy")
    large = face.LargeMessageQueue(heavy, fragment_size=1000)
    large.send(b"x" * 2500, label="one")
    large.send(b"y" * 10, label="two")
    first, second = heavy.contents()
    parts = list(heavy.parts(first.lookup_id))
    assert [(str(each.part.name), each.number, each.size) for each in parts] == [
        ("HEADER", 0, 0),
        ("FRAGMENT", 1, 1000),
        ("FRAGMENT", 2, 1000),
        ("FRAGMENT", 3, 500),
        ("TRAILER", 0, 0),
    ]
    assert [each.lookup_id for each in parts] == list(range(1, 6))
    assert len(list(heavy.parts(second.lookup_id))) == 3
    assert list(heavy.parts(10_000)) == []
    plain = manager.create_queue("light")
    plain.send(b"x")
    assert list(plain.parts(1)) == []


def test_contents_go_on_behind_a_position(face, manager):
    plain = manager.create_queue("plain")
    plain.send_many([b"a", b"bc", b"def"])
    sizes = [(each.lookup_id, each.size, each.parts) for each in plain.contents()]
    assert [size for _, size, _ in sizes] == [1, 2, 3]
    assert [each.size for each in plain.contents(after=sizes[0][0])] == [2, 3]
    heavy = face.LargeMessageQueue(manager.create_queue("heavy"), fragment_size=1000)
    ids = [heavy.send(BODY), heavy.send(BODY)]
    first, second = in_queue(manager, "heavy")
    assert [first.id, second.id] == ids
    assert [each.id for each in manager.queue("heavy").contents(after=first.lookup_id)] == ids[1:]


def test_a_dead_letter_says_why_in_words(face, manager):
    id = dead_large(face, manager, label="load")
    (letter,) = manager.dead_letters()
    assert (letter.id, letter.queue, letter.destination) == (id, DEAD, "heavy")
    assert letter.reason == "it was purged from its queue"
    assert letter.message_class is dray.MessageClass.NACK_Q_PURGED


def test_a_dead_large_message_is_sent_again_whole_with_its_id(face, manager):
    id = dead_large(face, manager, label="load")
    assert manager.retry_dead_letters([id]) == 1
    assert manager.dead_letters() == []
    (again,) = in_queue(manager, "heavy")
    assert (again.id, again.wholeness, again.message_class) == (id, "whole", 0)
    with face.LargeMessageQueue(manager.queue("heavy")).receive(0) as message:
        assert (message.label, message.body()) == ("load", BODY)


def test_dead_letters_are_retried_to_another_queue_or_where_they_were_sent(face, manager):
    for name in ("one", "two", "other"):
        manager.create_queue(name)
    ids = [
        manager.queue(name).send(name.encode(), use_dead_letter_queue=True)
        for name in ["one", "two"]
    ]
    for name in ("one", "two"):
        manager.queue(name).purge()
    assert manager.retry_dead_letters([ids[0]], to="other") == 1
    assert manager.queue("other").receive(0).id == ids[0]
    assert manager.retry_dead_letters() == 1
    assert manager.queue("two").receive(0).body == b"two"


def test_times_to_live_begin_anew_with_a_retry(face, manager):
    orders = manager.create_queue("orders")
    orders.send(b"old", time_to_be_received=0.01, use_dead_letter_queue=True)
    assert manager.queue(DEAD).peek(SECONDS).body == b"old"
    manager.retry_dead_letters()
    assert manager.queue(DEAD).peek(SECONDS).body == b"old", "it expired once more"


def test_a_dead_letter_of_a_remote_queue_goes_back_into_its_outgoing_queue(face, manager):
    id = manager.queue(NOWHERE).send(b"x", use_dead_letter_queue=True)
    manager.queue(NOWHERE).purge()
    assert [each.id for each in manager.dead_letters()] == [id]
    manager.retry_dead_letters([id])
    assert manager.dead_letters() == []
    assert [each.id for each in in_queue(manager, NOWHERE)] == [id]


def test_dropped_dead_letters_are_gone_and_the_others_stay(face, manager):
    ids = [dead_large(face, manager), dead_large(face, manager)]
    assert manager.drop_dead_letters(ids[:1]) == 1
    assert [each.id for each in manager.dead_letters()] == ids[1:]
    with pytest.raises(dray.MessageNotFound, match="nothing was done"):
        manager.drop_dead_letters(ids)
    assert len(manager.dead_letters()) == 1


def test_a_large_message_is_looked_at_by_its_id(face, manager):
    id = dead_large(face, manager)
    with face.LargeMessageQueue(manager.queue(DEAD)).peek_by_id(id) as message:
        assert message.body() == BODY
    assert len(manager.dead_letters()) == 1
    with pytest.raises(dray.MessageNotFound):
        face.LargeMessageQueue(manager.queue(DEAD)).peek_by_id(id[:-1] + "0")


@pytest.mark.parametrize("transactional", [True, False])
def test_all_messages_move_in_their_order_and_keep_their_ids(face, manager, transactional):
    source = manager.create_queue("source", transactional=transactional)
    manager.create_queue("target")
    sent = source.send_many([dray.Message(bytes([n]), priority=0) for n in range(5)])
    assert manager.move("source", "target;poison", [sent[1]]) == 1
    assert manager.move("source", "target") == 4
    assert manager.move("target;poison", "target") == 1
    assert [each.id for each in manager.queue("target").messages()] == [
        *sent[:1],
        *sent[2:],
        sent[1],
    ]
    assert source.info().message_count == 0


def test_a_message_that_moves_is_not_received_and_asks_for_no_second_end(face, manager):
    source, told = manager.create_queue("source", journal=True), manager.create_queue("told")
    manager.create_queue("target")
    source.send(
        b"x", administration_queue="told", acknowledge=dray.Acknowledge.FULL_RECEIVE,
        use_journal_queue=True,
    )  # fmt: skip
    manager.move("source", "target")
    assert (told.info().message_count, source.info().journal_count) == (0, 0)
    manager.queue("target").receive(0)
    assert told.receive(0).message_class is dray.MessageClass.ACK_RECEIVE


def test_a_move_is_refused_whole_for_a_hole_a_full_queue_or_one_of_the_system(face, manager):
    heavy = manager.create_queue("heavy")
    face.LargeMessageQueue(heavy, fragment_size=1000).send(BODY)
    manager.create_queue("small", quota=100)
    with pytest.raises(dray.QuotaExceeded):
        manager.move("heavy", "small")
    manager.create_queue("loose", transactional=False)
    with pytest.raises(dray.NotTransactional):
        manager.move("heavy", "loose")
    for system in (DEAD, "heavy", "heavy;journal"):
        with pytest.raises(dray.DrayError):
            manager.move("heavy", system)
    (shown,) = heavy.contents()
    manager.queue("heavy", raw=True).receive_by_lookup_id(shown.lookup_id + 1)
    manager.create_queue("target")
    with pytest.raises(dray.LargeMessageHole, match="lacks fragment 1, so it cannot be moved"):
        manager.move("heavy", "target")
    assert len(in_queue(manager, "heavy")) == 1


def test_a_move_of_nothing_is_refused_as_one_of_something_is(face, manager):
    manager.create_queue("source")
    with pytest.raises(dray.QueueNotFound, match="'missing'"):
        manager.move("source", "missing")
    with pytest.raises(dray.AccessDenied):
        manager.move("source", DEAD)
    with pytest.raises(dray.QueueNotFound, match="'missing'"):
        manager.retry_dead_letters(to="missing")
    manager.create_queue("target")
    assert manager.move("source", "target") == 0
    assert manager.retry_dead_letters(to="target") == 0


@pytest.mark.parametrize("name", ["orders", ".\\private$\\orders"])
def test_a_move_to_the_same_queue_is_refused_also_where_nothing_is_in_it(face, manager, name):
    manager.create_queue("orders")
    with pytest.raises(dray.InvalidArgument, match="target is another queue than source") as raised:
        manager.move("orders", name)
    assert raised.value.argument == "target"


def test_moved_messages_are_where_they_moved_to_after_a_restart(face, manager, tmp_path):
    id = dead_large(face, manager)
    manager.create_queue("target")
    manager.retry_dead_letters([id], to="target")
    manager.close()
    with face.open(tmp_path / "data") as again:
        assert [each.id for each in again.queue("target").contents()] == [id]
        with face.LargeMessageQueue(again.queue("target")).receive(0) as message:
            assert message.body() == BODY
        assert again.dead_letters() == []
