"""The page of the wire names every frame with its code."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.wire.frames import FRAME_TYPES
from dray.wire.message_frames import Envelope

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "wire.md"


@pytest.mark.parametrize("cls", FRAME_TYPES.values(), ids=lambda cls: cls.__name__)
def test_the_page_tells_of_every_frame(cls):
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if cls.__name__ in line]
    assert any(f"[{cls.code}]" in line for line in lines)


def test_the_page_tells_of_every_field_of_an_envelope():
    text = PAGE.read_text("utf-8")
    assert [name for name in Envelope.__struct_fields__ if f"`{name}`" not in text] == []
