"""A disk that is full at some write of a landing: one sentence, and nothing is lost or left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.small_disk import may_mount

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not may_mount(), reason="no mount namespaces here: no small disk to fill"),
]
PROGRAM = Path(__file__).with_name("land_on_full_disk.py")
SCRIPT = 'mkdir -p "$1" && mount -t tmpfs -o size=64m none "$1" && shift && exec "$@"'
EVERY = range(110)
"""A landing of these messages takes fewer pages: payloads, Arrow files, a commit, a checkpoint."""


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(
    "pages", [[0], pytest.param([*EVERY], marks=pytest.mark.torture)], ids=["some", "every"]
)
def test_a_disk_full_at_any_write_of_a_landing_loses_doubles_and_leaves_nothing(
    daemon, tmp_path, pages
):
    folder = tmp_path / "disk"
    command = ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh", str(folder)]
    command += [sys.executable, "-m", "tests.spark.land_on_full_disk", daemon.url, str(folder)]
    done = subprocess.run(
        [*command, *map(str, pages)],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]

    assert [each["pages"] for each in told] == pages
    assert [each for each in told if each["wrong"]] == []
    assert told[0]["error"]
    for each in told:
        assert each["error"].startswith("store-full: no room on ") or not each["error"], each
        assert "\n" not in each["error"]
