"""The same seed under two orders of hashing, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys


def digests_of(module: str, seed: int, *options: str) -> list[str]:
    """What `python -m module seed` prints under each of two hash seeds."""
    return [
        subprocess.run(
            [sys.executable, "-m", module, str(seed), *options],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
