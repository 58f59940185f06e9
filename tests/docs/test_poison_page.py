"""The page about poison messages: a type checker takes its handlers as they stand there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.check_docs import FENCE

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 200


def test_a_handler_may_name_the_kind_of_message_that_its_queue_has(tmp_path):
    page = (ROOT / "docs/how-to/poison-messages.md").read_text("utf-8")
    blocks = [fence["body"] for fence in FENCE.finditer(page) if fence["language"] == "python"]
    files = [tmp_path / f"block_{number}.py" for number in range(len(blocks))]
    for file, block in zip(files, blocks, strict=True):
        file.write_text(block)
    assert any("def handle(message: dray.LargeMessage" in block for block in blocks)
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=WITHIN_S,
    )
    assert ran.returncode == 0, ran.stdout
