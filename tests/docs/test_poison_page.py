"""The page about poison messages: a type checker takes its handlers as they stand there."""

from __future__ import annotations

import pytest

from tests.docs.blocks import ROOT, python_blocks, ran

pytestmark = pytest.mark.slow


def test_a_handler_may_name_the_kind_of_message_that_its_queue_has(tmp_path):
    blocks = python_blocks("docs/how-to/poison-messages.md")
    files = [tmp_path / f"block_{number}.py" for number in range(len(blocks))]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block)
    assert any("def handle(message: dray.LargeMessage" in block for block in blocks)
    ran("mypy", *map(str, files), cwd=ROOT)
