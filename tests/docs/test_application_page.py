"""The page about testing an application: its application and its tests run as they stand there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.check_docs import FENCE

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/test-an-application.md"
WITHIN_S = 200


def test_the_examples_of_testing_an_application_pass(tmp_path):
    fences = FENCE.finditer(PAGE.read_text("utf-8"))
    blocks = [fence["body"] for fence in fences if fence["language"] == "python"]
    names = ("orders.py", "test_orders.py", "test_kills.py")
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        timeout=WITHIN_S,
    )
    assert ran.returncode == 0, ran.stdout
    assert "4 passed" in ran.stdout
