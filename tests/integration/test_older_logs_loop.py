"""An older log put back right after a kill, again and again: it is refused, and nothing is lost."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from dray.testing.processes import ManagerProcess
from tests.integration.commands import dray as command

pytestmark = [pytest.mark.torture, pytest.mark.timeout(900)]

SEEDS = 4
ROUNDS = 10
OLDER = (["QMLog"], ["QMLog", "l0*.mq"], ["QMLog", "MQ*.lg?"], ["QMLog", "MQ*.lg?", "l0*.mq"])


def put_in(files: Path, target: Path, patterns: list[str]) -> None:
    """Put the files of these patterns in the place of those of the same names."""
    for pattern in patterns:
        for path in files.glob(pattern):
            shutil.copy(path, target)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_older_log_passes_a_start_within_a_second_of_the_last_commit(
    tmp_path, seed, went_through
):
    """Messages are sent and received; between two of them the files are copied."""
    chance = random.Random(seed)
    print(f"seed {seed}")
    process = ManagerProcess("manager", tmp_path)
    storage = process.data / "storage"
    waiting: list[bytes] = []
    number = 0
    for _ in range(ROUNDS):
        process.start()
        try:
            with process.connect() as manager:
                queue = manager.create_queue("orders", exist_ok=True)
                assert [bytes(each.body) for each in queue.messages()] == waiting
                acts = chance.randrange(2, 30)
                copied_at = chance.randrange(acts - 1)
                for act in range(acts):
                    if waiting and chance.randrange(2):
                        assert queue.receive(0).body == waiting.pop(0)
                    else:
                        number += 1
                        body = b"%d " % number + chance.randbytes(chance.randrange(3000))
                        queue.send(body)
                        waiting.append(body)
                    if act == copied_at:
                        older = tmp_path / "older"
                        shutil.rmtree(older, ignore_errors=True)
                        shutil.copytree(storage, older)
                process.kill()
                went_through["kills"] += 1
        finally:
            process.kill()
        true = tmp_path / "true"
        shutil.rmtree(true, ignore_errors=True)
        shutil.copytree(storage, true)
        patterns = chance.choice(OLDER)
        put_in(older, storage, patterns)
        went_through["older logs"] += 1
        refused = command("serve", "--data", process.data, "--open", "--listen", "127.0.0.1:0")
        assert (refused.status, "event 2079: QMLog" in refused.err) == (42, True), refused
        assert "older than the other files" in refused.err
        assert command("check", "--data", process.data).status == 42
        put_in(true, storage, patterns)
    with process, process.connect() as manager:
        queue = manager.queue("orders")
        assert [queue.receive(0).body for _ in waiting] == waiting
        assert queue.info().message_count == 0
