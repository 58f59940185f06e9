"""The programs on the page about many messages do what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from tools.check_docs import FENCE

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/how-to/send-many-messages-quickly.md"
WITHIN_S = 200


@pytest.fixture
def folder(tmp_path):
    daemon = EmbeddedDaemon(tmp_path / "data", read_options(data="", socket=str(tmp_path / "s")))
    daemon.start()
    with dray.connect(f"dray+unix://{tmp_path / 's'}") as manager:
        manager.create_queue("orders", transactional=True)
    yield tmp_path
    daemon.stop()


def run(words, folder):
    """Run the one program of the page that has those words, with the socket of this test."""
    found = [fence["body"] for fence in FENCE.finditer(PAGE.read_text("utf-8"))]
    (program,) = (each for each in found if words in each)
    program = program.replace("/run/dray/dray.sock", str(folder / "s"))
    file = folder / "program.py"
    file.write_text(program, "utf-8")
    done = subprocess.run(
        [sys.executable, file], check=True, capture_output=True, text=True, timeout=WITHIN_S
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_a_batch_of_the_page_comes_back_in_order(folder):
    assert run("send_many", folder) == ["b'one'", "b'two'", "b'three'"]


@pytest.mark.slow
def test_tasks_that_wait_at_the_same_time_share_syncs(folder):
    assert run("Semaphore", folder) == ["1000 orders are on the disk"]
    with dray.connect(f"dray+unix://{folder / 's'}") as manager:
        assert manager.queue("orders").info().message_count == 1000
        assert manager.info().syncs < 500
