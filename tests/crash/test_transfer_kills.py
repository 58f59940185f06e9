"""The crash matrix of file transfers: each party killed with SIGKILL at each of its steps.

However it is killed, started again it goes on: the file arrives once and whole, at the next
expected fragment, and nothing is left behind.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dray.testing.processes import ManagerProcess
from tests.crash import client_steps as steps
from tests.crash.transfer_party import FRAGMENT

pytestmark = pytest.mark.slow

PARTY = [sys.executable, "-m", "tests.crash.transfer_party"]
HOUSE = Path(__file__).parents[2]
FRAGMENTS = 60
MIDDLE = 25
WITHIN_S = 110
REPEATED = ("piece-sent", "piece-stored", "acked")
MATRIX = [
    (role, step, MIDDLE if step in REPEATED else 1)
    for role, those in (("offer", steps.OFFERING), ("accept", steps.ACCEPTING))
    for step in those
]
SHORT = [(True, "offer", "piece-sent", MIDDLE), (False, "accept", "piece-stored", MIDDLE)]


class Stage:
    """A queue manager, a file, and the two ends of its transfer."""

    def __init__(self, path: Path, manager: ManagerProcess, queue: str, *, relayed: bool) -> None:
        self.path, self.manager, self.queue, self.relayed = path, manager, queue, relayed
        self.source, self.target = path / "source", path / "target"
        self.source.write_bytes(os.urandom(FRAGMENTS * FRAGMENT - 5))
        with manager.connect() as connected:
            connected.create_queue(queue)

    def start(self, role: str, step: str = "", count: int = 0, *, only_tells: bool = False):
        told = {
            "url": self.manager.url,
            "queue": self.queue,
            "path": str(self.source if role == "offer" else self.target),
            "step": step,
            "count": count,
            "relayed": self.relayed,
            "patience": WITHIN_S,
            "only_tells": only_tells,
        }
        return subprocess.Popen(
            [*PARTY, role, json.dumps(told)],
            cwd=HOUSE,
            env=os.environ | {"DRAY_TRANSFERS": str(self.path / "transfers")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def ended(self, party) -> list[dict[str, object]]:
        """What a party said that came to its end."""
        out, err = party.communicate(timeout=WITHIN_S)
        assert party.returncode == 0, err.decode()
        return [json.loads(line) for line in out.splitlines()]

    def assert_delivered_once(self) -> None:
        assert self.target.read_bytes() == self.source.read_bytes()
        left = [each for each in self.path.iterdir() if each.suffix == ".partial"]
        assert left == []
        kept = [each.name for each in (self.path / "transfers").rglob("*") if each.is_file()]
        assert kept == []
        with self.manager.connect() as connected:
            assert connected.queue(self.queue).info().message_count == 0


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("kills")) as process:
        yield process


@pytest.fixture(params=[False, True], ids=["direct", "relayed"])
def stage(request, tmp_path, manager, went_through):
    went_through["kills"] = 1
    return Stage(tmp_path, manager, f"q-{tmp_path.name[-60:]}", relayed=request.param)


def kill_and_go_on(stage: Stage, role: str, step: str, count: int) -> None:
    other = "accept" if role == "offer" else "offer"
    doomed, living = stage.start(role, step, count), stage.start(other)
    assert doomed.wait(WITHIN_S) == -9, doomed.communicate()[1].decode()
    doomed.communicate()
    only_tells = step in ("verified-kept", "verified-told")
    said = stage.ended(stage.start(role, only_tells=only_tells))
    stage.ended(living)
    stage.assert_delivered_once()
    if step == "piece-stored":
        assert said[0]["there"] == MIDDLE * FRAGMENT, "it goes on at the next expected fragment"
    if step == "piece-sent":
        assert said[-1]["resent"] < MIDDLE, "it does not begin anew"


@pytest.mark.parametrize(
    ("stage", "role", "step", "count"), SHORT, indirect=["stage"], ids=["relayed", "direct"]
)
def test_a_killed_end_goes_on_at_the_next_expected_fragment(stage, role, step, count):
    kill_and_go_on(stage, role, step, count)


@pytest.mark.torture
@pytest.mark.parametrize(("role", "step", "count"), MATRIX)
def test_the_whole_matrix(stage, role, step, count):
    kill_and_go_on(stage, role, step, count)


def test_a_transfer_outlives_its_queue_manager(tmp_path):
    with ManagerProcess("manager", tmp_path) as manager:
        stage = Stage(tmp_path, manager, "reports", relayed=True)
        doomed = stage.start("accept", "piece-stored", MIDDLE)
        living = stage.start("offer")
        assert doomed.wait(WITHIN_S) == -9
        doomed.communicate()
        manager.kill()
        manager.start()
        stage.ended(stage.start("accept"))
        stage.ended(living)
        stage.assert_delivered_once()


def test_the_page_lists_the_matrix():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "transfer.md"
    text = page.read_text("utf-8")
    for step in (*steps.OFFERING, *steps.ACCEPTING):
        assert f"| `{step}` |" in text
