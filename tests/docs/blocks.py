"""The examples of a page, and the tools that look at them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.check_docs import FENCE

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 200


def python_blocks(page: str) -> list[str]:
    """The Python of a page, block by block."""
    fences = FENCE.finditer((ROOT / page).read_text("utf-8"))
    return [fence["body"] for fence in fences if fence["language"] == "python"]


def ran(module: str, *arguments: str, cwd: Path) -> str:
    """What a module printed that must end well."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        timeout=WITHIN_S,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout
