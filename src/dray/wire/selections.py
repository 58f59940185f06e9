"""The message that a receive asks for: an array whose first element says how it is named.

[0]                        the first that is available
[1, id]                    the message of that id
[2, correlation_id]        the first of that correlation id; case does not count
[3, lookup_id]             the message at that position
[4, after, priority]       behind a position, passing over what transactions hold; of one
priority only, unless that is nil
[5, after]                 behind a position, up to the first that a transaction holds
[6, sequence_id]           the large message of that id
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from dray.model.limits import PRIORITY_MAX

_Priority = Annotated[int, msgspec.Meta(ge=0, le=PRIORITY_MAX)]


class SelectFirst(msgspec.Struct, array_like=True, frozen=True, tag=0):
    """The first message that is available."""


class SelectById(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """The message of an id."""

    id: str


class SelectByCorrelation(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The first message of a correlation id; case does not count."""

    correlation_id: str


class SelectAt(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """The message at a position."""

    lookup_id: int


class SelectNext(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """Messages behind a position, passing over what transactions hold."""

    after: int
    priority: _Priority | None = None
    """Only those of one priority."""


class SelectRange(msgspec.Struct, array_like=True, frozen=True, tag=5):
    """Messages behind a position, up to the first that a transaction holds."""

    after: int


class SelectBySequence(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """The large message of an id."""

    sequence_id: str


SelectOne = SelectById | SelectByCorrelation | SelectAt
"""One certain message: it is there, or it is not."""
Select = SelectFirst | SelectOne | SelectNext | SelectRange
SelectLarge = SelectFirst | SelectByCorrelation | SelectBySequence


def told(select: SelectOne | SelectBySequence) -> str:
    """Say for people which message is asked for: a name, and the value that it has."""
    (name,) = type(select).__struct_fields__
    return f"{name.replace('_', ' ')} {getattr(select, name)!r}"
