"""No frame that a caller may say has a field of any type: its reader would build whatever comes."""

from __future__ import annotations

from typing import Any

import msgspec
import msgspec.inspect

from dray.manager.dispatch import FROM_CALLERS
from dray.wire.frames import FRAME_TYPES
from dray.wire.head import Head


def loose(found: msgspec.inspect.Type, seen: set[type]) -> bool:
    """Whether a type lets any value in somewhere."""
    if isinstance(found, msgspec.inspect.AnyType | msgspec.inspect.DictType):
        return True
    if isinstance(found, msgspec.inspect.StructType):
        if found.cls in seen:
            return False
        seen.add(found.cls)
        return any(loose(field.type, seen) for field in found.fields)
    inner = [getattr(found, "item_type", None), *getattr(found, "item_types", ())]
    inner += getattr(found, "types", ())
    return any(loose(each, seen) for each in inner if each is not None)


def test_no_frame_of_a_caller_has_a_field_of_any_type_or_a_map():
    said = [FRAME_TYPES[code] for code in sorted(FROM_CALLERS)]
    assert len(said) > 50
    found = [each.__name__ for each in said if loose(msgspec.inspect.type_info(each), set())]
    assert found == []


def test_a_frame_with_such_a_field_is_found():
    class Loose(Head, frozen=True):
        code = 250
        fields: list[dict[str, Any]]

    try:
        assert loose(msgspec.inspect.type_info(Loose), set())
    finally:
        FRAME_TYPES.pop(250, None)
