"""What an operator is told of: plain values, counted, and bounded."""

from __future__ import annotations

from dray.manager.notices import EACH_ONCE, OTHERS, Notice, NoticeKind, Notices
from dray.model.limits import NOTICES_MAX

FULL = NoticeKind.QUEUE_FILES_WAIT


def test_equal_notices_are_one_that_says_how_often():
    notices = Notices()
    notices.add(FULL, "orders", "it is full; receive")
    notices.add(FULL, "orders", "it is full; receive", 4)
    notices.add(FULL, "other", "it is full; receive")
    assert notices.take() == [
        Notice("queue-files-wait", "orders", "it is full; receive", 5),
        Notice("queue-files-wait", "other", "it is full; receive", 1),
    ]
    assert notices.take() == []


def test_a_notice_reads_as_its_subject_and_sentence():
    assert str(Notice(FULL, "orders", "it is full; receive")) == "orders: it is full; receive"


def test_notices_of_very_many_subjects_are_counted_together():
    notices = Notices()
    for number in range(NOTICES_MAX + 10):
        notices.add(FULL, f"queue {number}", "it is full; receive")
    found = notices.take()
    assert len(found) == NOTICES_MAX + 1
    assert (found[-1].subject, found[-1].times) == (OTHERS, 10)
    assert sum(each.times for each in found) == NOTICES_MAX + 10


def test_a_kind_of_notice_is_a_word_that_a_filter_can_find():
    for kind in NoticeKind:
        assert str(kind) == kind.value
        assert kind.value.replace("-", "").isalpha()
    assert set(NoticeKind) > EACH_ONCE
