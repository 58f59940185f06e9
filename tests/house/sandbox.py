"""A run of pytest over a few test files of our making, without the settings of this repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HOUSE = Path(__file__).parents[2]


def run_tests(folder: Path, *arguments: str) -> str:
    """What it printed about the tests in `folder`, failed or not."""
    # With our own settings a forgotten file is an error of another kind, at random.
    options = ["-c", "/dev/null", "--rootdir", ".", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *options, f"--basetemp={folder / 'base'}"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env={"PYTHONPATH": str(HOUSE), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.stdout
