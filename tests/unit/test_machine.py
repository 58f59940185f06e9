"""A machine does what its table says, and a table that leaves a case open does not compile."""

from __future__ import annotations

import enum
from typing import NamedTuple

import pytest

from dray.machine import Machine, always, nothing, on


class Door(enum.Enum):
    OPEN = enum.auto()
    SHUT = enum.auto()
    LOCKED = enum.auto()


class Push(NamedTuple):
    """Somebody pushes it."""


class Turn(NamedTuple):
    """Somebody turns a key."""

    key: str


class DoorBase(Machine[Door, Push | Turn, str]):
    def fits(self, event: Turn, _now: float) -> bool:
        return event.key == "ours"

    def creak(self, _event: object, _now: float) -> list[str]:
        return ["creak"]

    def click(self, _event: object, _now: float) -> list[str]:
        return [f"click, now {self.stage.name}"]


TABLE = (
    on((Door.OPEN, Door.SHUT), Push, always, DoorBase.creak, Door.SHUT),
    on(Door.LOCKED, Push, always, nothing),
    on(Door.SHUT, Turn, DoorBase.fits, DoorBase.click, Door.LOCKED),
    on(Door.LOCKED, Turn, DoorBase.fits, DoorBase.click, Door.SHUT),
    on((Door.OPEN, Door.SHUT, Door.LOCKED), Turn, always, nothing),
)


class FrontDoor(DoorBase):
    table = TABLE


def test_the_first_line_whose_condition_holds_decides():
    door = FrontDoor(Door.OPEN)
    assert door.handle(Push(), 0.0) == ["creak"]
    assert door.stage is Door.SHUT
    assert door.handle(Turn("theirs"), 0.0) == []
    assert door.stage is Door.SHUT


def test_an_action_runs_in_the_next_state():
    door = FrontDoor(Door.SHUT)
    assert door.handle(Turn("ours"), 0.0) == ["click, now LOCKED"]
    assert door.handle(Turn("ours"), 0.0) == ["click, now SHUT"]


def test_a_subclass_may_override_a_condition_and_an_action():
    class Picked(FrontDoor):
        def fits(self, _event, _now):
            return True

        def click(self, _event, _now):
            return ["crack"]

    door = Picked(Door.LOCKED)
    assert door.handle(Turn("theirs"), 0.0) == ["crack"]
    assert door.stage is Door.SHUT


def test_a_state_without_a_line_is_final():
    class Fused(FrontDoor):
        table = (
            on(Door.OPEN, Push, always, DoorBase.creak, Door.LOCKED),
            on(Door.OPEN, Turn, always, nothing),
        )

    door = Fused(Door.OPEN)
    assert door.handle(Push(), 0.0) == ["creak"]
    assert door.handle(Push(), 0.0) == door.handle(Turn("ours"), 0.0) == []
    assert door.stage is Door.LOCKED


@pytest.mark.parametrize("left_out", [0, 1])
def test_a_table_that_leaves_a_case_open_does_not_compile(left_out):
    with pytest.raises(AssertionError, match="not one line holds always"):
        type("Broken", (DoorBase,), {"table": TABLE[:left_out] + TABLE[left_out + 1 :]})


def test_a_case_whose_lines_all_have_conditions_does_not_compile():
    with pytest.raises(AssertionError, match="not one line holds always"):
        type("Broken", (DoorBase,), {"table": TABLE[:4]})


def test_a_line_behind_the_last_one_of_its_case_does_not_compile():
    behind = on(Door.LOCKED, Turn, DoorBase.fits, DoorBase.click)
    with pytest.raises(AssertionError, match="a line behind the last one"):
        type("Broken", (DoorBase,), {"table": (*TABLE, behind)})
