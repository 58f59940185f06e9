"""A disk that is full at some write of Spark or of ours: one sentence, nothing is lost or left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.small_disk import may_mount
from tests.spark.conftest import Daemon

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not may_mount(), reason="no mount namespaces here: no small disk to fill"),
]
SCRIPT = 'mkdir -p "$1" && mount -t tmpfs -o size=64m none "$1" && shift && exec "$@"'
SOME = {"landing": [0], "settling": [0], "sink": [0]}
EVERY = {"landing": [*range(110)], "settling": [*range(50)], "sink": [*range(30)]}
"""Each run takes fewer pages: payloads, Arrow files, a table, a checkpoint."""


def run_on_full_disk(folder, wanted, timeout):
    """Run one driver on a disk of its own; what it said, by kind."""
    daemon = Daemon(folder / "manager")
    try:
        command = ["unshare", "--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]
        command += [str(folder / "disk"), sys.executable, "-m", "tests.spark.spark_on_full_disk"]
        command += [daemon.url, str(folder / "disk")]
        command += [f"{kind}={','.join(map(str, pages))}" for kind, pages in wanted.items()]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=True, text=True, timeout=timeout,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
    finally:
        daemon.end()
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return {kind: [each for each in told if each["kind"] == kind] for kind in wanted}


@pytest.fixture(scope="module")
def some(tmp_path_factory):
    """All kinds on a disk without a free page; one driver for all tests of this file."""
    return run_on_full_disk(tmp_path_factory.mktemp("some"), SOME, 280)


def assert_nothing_lost_or_left(told, pages):
    assert [each["pages"] for each in told] == pages
    assert [each for each in told if each["wrong"]] == []
    assert told[0]["error"]
    for each in told:
        assert each["error"].startswith("store-full: no room on ") or not each["error"], each
        assert "\n" not in each["error"]


def test_a_disk_full_at_any_write_of_a_landing_loses_doubles_and_leaves_nothing(some):
    assert_nothing_lost_or_left(some["landing"], SOME["landing"])


def test_a_full_disk_ends_a_settling_query_and_each_message_is_written_once(some):
    assert_nothing_lost_or_left(some["settling"], SOME["settling"])


def test_a_full_disk_ends_a_query_into_a_queue_and_each_row_is_sent_once(some):
    assert_nothing_lost_or_left(some["sink"], SOME["sink"])


@pytest.mark.torture
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("kind", EVERY)
def test_a_disk_full_at_every_write_loses_doubles_and_leaves_nothing(tmp_path, kind):
    told = run_on_full_disk(tmp_path, {kind: EVERY[kind]}, 7_000)
    assert_nothing_lost_or_left(told[kind], EVERY[kind])
