"""Every argument of a decorated function or class is checked, by its name and annotation."""

from __future__ import annotations

import asyncio
import inspect
from types import EllipsisType

import pytest

from dray.client.calls.public_calls import checked, is_checked, public
from dray.errors import InvalidArgument


@checked
def look(after: int, *, timeout: float | None = None, quota: int | EllipsisType = ...) -> object:
    """Give what it was given."""
    return after, timeout, quota


@public()
class Shelf:
    def __init__(self, max_messages: int = 1) -> None:
        self.max_messages = max_messages

    async def look(self, after: int) -> int:
        return after

    def _inner(self, colour: str) -> str:
        return colour


@public(inner=["paint"])
class Wall:
    def paint(self, colour: str) -> str:
        return colour


def test_a_call_that_makes_sense_is_made():
    assert look(7) == (7, None, ...)
    assert look(after=7, timeout=None, quota=5) == (7, None, 5)
    assert asyncio.run(Shelf(3).look(7)) == 7
    assert Shelf()._inner("red") == "red"
    assert inspect.signature(look).parameters.keys() == {"after", "timeout", "quota"}


@pytest.mark.parametrize(
    ("arguments", "named", "sentence"),
    [
        ((), {}, "look needs after; it takes after, timeout, quota"),
        ((1, 2), {}, "look takes 1 arguments by position, not 2"),
        ((1,), {"after": 1}, "look takes after once, and it was given twice"),
        ((1,), {"colour": 1}, "look takes no 'colour'; it takes after, timeout, quota"),
    ],
)
def test_arguments_that_a_call_does_not_have_are_refused_in_a_sentence(arguments, named, sentence):
    with pytest.raises(TypeError) as caught:
        look(*arguments, **named)
    assert str(caught.value).startswith(sentence)


def test_an_argument_that_makes_no_sense_is_refused_by_position_and_by_name():
    for arguments, named in ((("x",), {}), ((), {"after": "x"})):
        with pytest.raises(InvalidArgument, match=r"^after is "):
            look(*arguments, **named)
    with pytest.raises(InvalidArgument, match=r"^max_messages is "):
        Shelf("x")


def test_a_coroutine_refuses_when_it_is_awaited():
    waiting = Shelf().look("x")
    with pytest.raises(InvalidArgument, match=r"^after is "):
        asyncio.run(waiting)


def test_a_parameter_that_the_table_does_not_know_stops_the_import():
    def paint(colour: str) -> None: ...

    with pytest.raises(AssertionError, match=r"say in client/calls/arguments.py: paint.colour"):
        checked(paint)


def test_inner_methods_and_private_ones_are_left_as_they_are():
    assert Wall().paint("red") == "red"
    assert not is_checked(Wall.paint)
    assert not is_checked(Shelf._inner)
    assert is_checked(Shelf.look)


def test_what_only_dray_makes_is_made_of_something_of_drays():
    class Link:
        pass

    class Hook:
        def __init__(self, link: Link) -> None:
            self.link = link

    made = public(made_by="Manager.hook")(Hook)
    with pytest.raises(TypeError, match=r"a Hook comes from Manager.hook; do not make one"):
        made(Link())
    with pytest.raises(TypeError, match=r"a Hook comes from Manager.hook; do not make one"):
        made()
