"""The base class of frame heads."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from dray.model.limits import (
    BATCH_MESSAGES_MAX,
    FRAME_HEAD_BYTES_MAX,
    HOLES_NAMED_MAX,
    PAGE_HEAD_BYTES_MAX,
    RECEIPT_BYTES,
)

BATCH = msgspec.Meta(max_length=BATCH_MESSAGES_MAX)
"""Bounds a list of what one frame says of its messages, before the list is read."""
RANGE = msgspec.Meta(min_length=2, max_length=2)
"""Bounds a list to a first and a last number."""
MissingPart = Annotated[list[int], RANGE] | str
"""A missing part of a large message: a range [first, last] of fragments, "header" or "trailer"."""
MissingParts = Annotated[list[MissingPart], msgspec.Meta(max_length=HOLES_NAMED_MAX)]
"""The missing parts that one frame between managers may name."""
Receipt = Annotated[bytes, msgspec.Meta(max_length=RECEIPT_BYTES)]
"""A receipt of the state of a store, sealed (`delivery/receipts.py`)."""


class Head(msgspec.Struct, array_like=True, frozen=True):
    """A frame's head. Each subclass is one frame type, with its code."""

    code: ClassVar[int] = 0
    with_file: ClassVar[bool] = False
    """Whether a descriptor comes with it."""
    pages: ClassVar[bool] = False
    """Whether it carries a page of entries, and so may be longer than others."""

    @classmethod
    def bytes_max(cls) -> int:
        """The most bytes of an encoded head of this type."""
        return PAGE_HEAD_BYTES_MAX if cls.pages else FRAME_HEAD_BYTES_MAX
