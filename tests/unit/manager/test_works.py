"""Work that is done portion by portion: one after the other, and none gets lost when one fails."""

from __future__ import annotations

import pytest

from dray.errors import Misuse, QuotaExceeded, StorePoisoned
from dray.manager.events import Answer
from dray.manager.notices import NoticeKind
from dray.manager.session import Session
from dray.manager.works import Works
from dray.model.callers import OWNER
from dray.wire.frames import Done, failure
from tests.inspection import look_into

ASKER = (Session(7, OWNER), 8)


class Portions:
    """A work of so many portions, after which it fails or ends; the turn has room for one each."""

    def __init__(self, works, count, error=None):
        self.works, self.count, self.error, self.done = works, count, error, 0

    def __iter__(self):
        for _ in range(self.count):
            self.done += 1
            yield
        if self.error is not None:
            raise self.error


@pytest.fixture
def works(driver) -> Works:
    return look_into(driver.manager).subjects.works


@pytest.fixture
def one_a_turn(works, monkeypatch):
    monkeypatch.setattr(type(works.context.room), "has_said_enough", True)
    return works._go_on_with_first


def test_work_that_fits_a_turn_is_done_at_once(works):
    portions = Portions(works, 3)
    works.carry_on(iter(portions))
    assert (portions.done, len(works.begun)) == (3, 0)


def test_work_that_is_begun_later_waits_for_the_one_before_it(works, one_a_turn):
    first, second = Portions(works, 2), Portions(works, 1)
    works.carry_on(iter(first))
    works.carry_on(iter(second))
    assert (first.done, second.done, len(works.begun)) == (1, 0, 2)
    one_a_turn()
    one_a_turn()
    assert (first.done, second.done, len(works.begun)) == (2, 0, 1)
    one_a_turn()
    one_a_turn()
    assert (second.done, len(works.begun)) == (1, 0)


def test_an_asker_is_answered_with_what_the_work_returns_when_it_ends(works, one_a_turn):
    def work():
        yield
        return Done(5)

    works.carry_on(work(), ASKER)
    assert works.context.effects == []
    one_a_turn()
    assert works.context.effects == [Answer(7, 8, Done(5))]


def test_an_error_in_the_first_turn_is_raised_to_whoever_asked(works):
    with pytest.raises(Misuse):
        works.carry_on(iter(Portions(works, 1, Misuse("no"))), ASKER)
    assert (works.context.effects, len(works.begun)) == ([], 0)


def test_a_later_error_goes_to_whoever_asked_and_else_into_a_notice(driver, works, one_a_turn):
    error = QuotaExceeded("it is full")
    works.carry_on(iter(Portions(works, 1, error)), ASKER)
    works.carry_on(iter(Portions(works, 1, error)))
    driver.manager.notices()
    one_a_turn()
    told = [Answer(7, 8, failure(error))]
    assert (works.context.effects, driver.manager.notices(), len(works.begun)) == (told, [], 1)
    one_a_turn()
    one_a_turn()
    (notice,) = driver.manager.notices()
    assert (notice.kind, notice.subject) == (NoticeKind.WORK_STOPPED, "storage")
    assert "stopped before its end: it is full" in notice.sentence
    assert (works.context.effects, len(works.begun)) == (told, 0)


@pytest.mark.parametrize("portions", [0, 1])
def test_a_poisoned_store_ends_everything(works, one_a_turn, portions):
    poisoned = StorePoisoned("the disk is gone")

    def two_turns():
        works.carry_on(iter(Portions(works, portions, poisoned)), ASKER)
        one_a_turn()

    with pytest.raises(StorePoisoned):
        two_turns()
    assert works.context.effects == []
