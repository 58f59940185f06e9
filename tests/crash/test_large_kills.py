"""Clients of large messages killed with SIGKILL at each of their steps, which have names.

Sending, going on with what was sent, receiving into a file and going on with it, being told of a
hole; by TCP and with lent files. However it was killed, run again it is delivered once, or the hole
told; and nothing is left behind.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

import dray
from dray.client.files.upload_state import UploadStateFile
from dray.testing.processes import ManagerProcess
from tests.crash import client_steps as steps
from tests.crash.large_party import FRAGMENT
from tests.integration.commands import until

pytestmark = pytest.mark.slow

PARTY = [sys.executable, "-m", "tests.crash.large_party"]
HOUSE = Path(__file__).parents[2]
BODY = random.Random(11).randbytes(5 * FRAGMENT + 7)
WITHIN_S = 110
MIDDLE = 3
REPEATED = {"fragment-sent": MIDDLE, "marked": 2, "fragment-saved": MIDDLE}


def matrix(steps: tuple[str, ...]) -> list[tuple[str, int]]:
    return [(step, REPEATED.get(step, 1)) for step in steps]


class Stage:
    """A queue manager's queue, a file to send, a file to receive."""

    kills = 0

    def __init__(self, path: Path, manager: ManagerProcess, url: str, name: str) -> None:
        self.path, self.manager, self.url, self.name = path, manager, url, name
        (path / "body").write_bytes(BODY)
        with manager.connect() as connected:
            connected.create_queue("statusq", exist_ok=True)
            connected.create_queue(name)

    def run(self, act: str, step: str = "", count: int = 1, *, resume: bool = False) -> str | None:
        """What a client says; None if it was killed, as it must be if it has a step."""
        told = {
            "url": self.url,
            "queue": self.name,
            "path": str(self.path / "body"),
            "state": str(self.path / "state"),
            "out": str(self.path / "out"),
            "resume": resume,
            "step": step,
            "count": count,
        }
        ended = subprocess.run(
            [*PARTY, act, json.dumps(told)],
            cwd=HOUSE,
            capture_output=True,
            check=False,
            timeout=WITHIN_S,
        )
        assert ended.returncode == (-9 if step else 0), ended.stderr.decode()
        self.kills += bool(step)
        return None if step else json.loads(ended.stdout)

    def count(self) -> int:
        with self.manager.connect() as connected:
            return connected.queue(self.name).info().message_count

    def until_it_is_given_back(self) -> None:
        """The queue manager notices that its client is gone."""
        with self.manager.connect() as connected:
            large = dray.LargeMessageQueue(connected.queue(self.name))
            until(lambda: self._can_be_seen(large), WITHIN_S)

    @staticmethod
    def _can_be_seen(large: dray.LargeMessageQueue) -> bool:
        try:
            large.peek(timeout=0).close()
        except dray.ReceiveTimeout:
            return False
        except dray.LargeMessageHole:
            return True
        return True

    def send(self) -> None:
        with self.manager.connect() as connected:
            large = dray.LargeMessageQueue(connected.queue(self.name), fragment_size=FRAGMENT)
            large.send(self.path / "body")

    def assert_delivered_once(self) -> None:
        with self.manager.connect() as connected:
            large = dray.LargeMessageQueue(connected.queue(self.name))
            with large.receive(timeout=0) as message:
                assert message.body() == BODY
            assert large.unfinished() == []
        assert self.count() == 0
        assert [each.name for each in self.path.iterdir()] == ["body"]


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    path = tmp_path_factory.mktemp("large")
    with ManagerProcess("manager", path, ["--socket", str(path / "s")]) as process:
        yield process


@pytest.fixture(params=["tcp", "lent"])
def stage(request, tmp_path, manager, went_through):
    socket = manager.data.parent / "s"
    url = f"dray+unix://{socket}" if request.param == "lent" else manager.url
    (tmp_path / "files").mkdir()
    stage = Stage(tmp_path / "files", manager, url, f"q-{tmp_path.name[-60:]}")
    yield stage
    went_through["kills"] = stage.kills


def kill_a_sender(stage: Stage, step: str, count: int) -> None:
    stage.run("send", step, count)
    if step == "send-committed":
        stage.assert_delivered_once()
        return
    stage.run("send")
    stage.assert_delivered_once()


def kill_an_uploader(stage: Stage, step: str, count: int) -> None:
    stage.run("upload", step, count)
    if step == "state-removed":
        stage.assert_delivered_once()
        return
    assert (stage.path / "state").exists() == (step != "state-written")
    if step == "state-written":
        assert UploadStateFile(stage.path / "state.partial").read() is not None
    stage.run("upload")
    stage.assert_delivered_once()


def kill_a_receiver(stage: Stage, step: str, count: int, *, resume: bool) -> None:
    stage.send()
    stage.run("receive", step, count, resume=resume)
    out, partial = stage.path / "out", stage.path / "out.partial"
    assert out.exists() == (step in {"file-named", "directory-synced", "receive-committed"})
    if step == "fragment-saved":
        assert partial.read_bytes()[: count * FRAGMENT] == BODY[: count * FRAGMENT]
    if step != "receive-committed":
        stage.until_it_is_given_back()
    said = stage.run("receive", resume=resume)
    assert said == ("nothing" if step == "receive-committed" else "saved")
    assert out.read_bytes() == BODY
    assert stage.count() == 0
    assert sorted(each.name for each in stage.path.iterdir()) == ["body", "out"]


def kill_who_is_told_of_a_hole(stage: Stage, step: str, count: int) -> None:
    stage.send()
    with stage.manager.connect() as connected:
        parts = connected.queue(stage.name, raw=True)
        third = list(parts.messages())[2]
        parts.receive_by_lookup_id(third.lookup_id)
    stage.run("receive", step, count)
    if step == "hole-told":
        stage.until_it_is_given_back()
    assert stage.run("receive") == ("a hole" if step == "hole-told" else "nothing")
    assert stage.count() == 0
    with stage.manager.connect() as connected:
        assert connected.queue("statusq").info().message_count == 0


@pytest.mark.torture
@pytest.mark.parametrize(("step", "count"), matrix(steps.SENDING))
def test_a_sender_killed_at_each_step(stage, step, count):
    kill_a_sender(stage, step, count)


@pytest.mark.torture
@pytest.mark.parametrize(("step", "count"), matrix(steps.UPLOADING))
def test_a_sender_that_goes_on_killed_at_each_step(stage, step, count):
    kill_an_uploader(stage, step, count)


@pytest.mark.torture
@pytest.mark.parametrize("resume", [False, True], ids=["anew", "going on"])
@pytest.mark.parametrize(("step", "count"), matrix(steps.RECEIVING))
def test_a_receiver_killed_at_each_step(stage, step, count, resume):
    kill_a_receiver(stage, step, count, resume=resume)


@pytest.mark.torture
@pytest.mark.parametrize(("step", "count"), matrix(steps.TOLD_OF_A_HOLE))
def test_who_is_told_of_a_hole_killed_at_each_step(stage, step, count):
    kill_who_is_told_of_a_hole(stage, step, count)


@pytest.mark.parametrize("stage", ["lent"], indirect=True)
def test_an_upload_whose_commit_was_not_noted_is_not_sent_twice(stage):
    kill_an_uploader(stage, "upload-committed", 1)


@pytest.mark.parametrize("stage", ["lent"], indirect=True)
def test_a_file_between_its_sync_and_its_name_is_gone_on_with(stage):
    kill_a_receiver(stage, "file-synced", 1, resume=True)


def test_the_page_lists_the_steps():
    page = Path(__file__).parents[2] / "docs" / "explanation" / "large-messages.md"
    text = page.read_text("utf-8")
    listed = (
        *steps.SENDING,
        *steps.UPLOADING,
        *steps.RECEIVING,
        *steps.TOLD_OF_A_HOLE,
    )
    assert [step for step in listed if f"| `{step}` |" not in text] == []
