"""The base class of frame heads."""

from __future__ import annotations

from typing import ClassVar

import msgspec


class Head(msgspec.Struct, array_like=True, frozen=True):
    """A frame's head. Each subclass is one frame type, with its code."""

    code: ClassVar[int] = 0
    with_file: ClassVar[bool] = False
    """Whether a descriptor comes with it."""
