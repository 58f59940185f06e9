"""No frame has a field of any type whatever, and none is longer than it says."""

from __future__ import annotations

import types
import typing

import msgspec
import pytest

from dray.manager.dispatch import FROM_CALLERS
from dray.wire.frames import FRAME_TYPES
from dray.wire.head import Head

ENDLESS = (typing.Any, object, set, frozenset)


def types_in(kind: object, seen: set[object]) -> typing.Iterator[object]:
    """An annotation and all that it is made of, also of structs and named tuples."""
    if not isinstance(kind, types.GenericAlias | types.UnionType) and kind in seen:
        return
    yield kind
    for inner in typing.get_args(kind):
        if not isinstance(inner, msgspec.Meta):
            yield from types_in(inner, seen)
    if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or hasattr(kind, "_fields")):
        seen.add(kind)
        for hint in typing.get_type_hints(kind, include_extras=True).values():
            yield from types_in(hint, seen)


def complaints(kind: type[Head]) -> list[str]:
    """The types in a frame whose cost its sender chooses."""
    found = []
    for each in types_in(kind, set()):
        if each in ENDLESS or each in (list, dict, tuple):
            found.append(f"{kind.__name__} has a field of type {each}")
        if typing.get_origin(each) is dict and typing.get_args(each)[0] is not str:
            found.append(f"{kind.__name__} has a map with keys that are no texts")
    return found


@pytest.mark.parametrize("kind", FRAME_TYPES.values(), ids=lambda kind: kind.__name__)
def test_no_frame_has_a_field_of_any_type(kind):
    assert complaints(kind) == []


def test_the_rule_finds_what_it_forbids():
    class Wild(msgspec.Struct):
        a: list[typing.Any]
        b: dict[int, str]
        c: dict[str, dict]

    assert len(complaints(Wild)) == 3


def test_a_caller_may_not_say_what_carries_a_map():
    for code in FROM_CALLERS:
        origins = {typing.get_origin(each) for each in types_in(FRAME_TYPES[code], set())}
        assert dict not in origins, FRAME_TYPES[code].__name__
