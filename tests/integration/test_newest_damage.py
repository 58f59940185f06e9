"""A real manager is killed right after a commit, and what that wrote is damaged or taken back.

The commit was answered, so it may not be missing without a word: the damage is refused, or it is
named at the start and by `dray check`, and the message goes to quarantine like an older one.
"""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest

import dray
from dray.store.limits import COPIED_BYTES_MAX
from tests.integration.commands import dray as command
from tests.integration.commands import finish, started

pytestmark = pytest.mark.slow

OLDER_FILES = {
    "log": ["QMLog"],
    "log and maps": ["QMLog", "l0*.mq"],
    "log and checkpoints": ["QMLog", "MQ*.lg?"],
    "log, checkpoints and maps": ["QMLog", "MQ*.lg?", "l0*.mq"],
}
QUARANTINE = "system$;quarantine"


def url_of(process) -> str:
    ready = re.search(r" ready at (\S+)\n", process.stdout.readline().decode())
    assert ready, process.stderr.read()
    return ready[1]


def killed_after(data: Path, bodies: list[bytes], *, copy_after: int = -1) -> None:
    """Send the bodies one by one, and kill the manager when the last was answered.

    When so many were answered, `data` is copied to its neighbour `older`.
    """
    with started("serve", "--data", data, "--open", "--listen", "127.0.0.1:0") as process:
        with dray.connect(url_of(process)) as manager:
            queue = manager.create_queue("orders", exist_ok=True)
            for number, body in enumerate(bodies, 1):
                queue.send(body)
                if number == copy_after:
                    shutil.copytree(data, data.with_name("older"))
            process.kill()
        finish(process)


def flip(path: Path, at: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


def place_of(data: Path, body: bytes) -> tuple[Path, int]:
    for path in (data / "storage").glob("p*.mq"):
        at = path.read_bytes().find(body)
        if at >= 0:
            return path, at
    raise AssertionError("no message file has the body")


def what_a_start_gives(data: Path) -> tuple[list[bytes], int, str]:
    """The bodies that can be received, how many messages are in quarantine, and what was said."""
    received: list[bytes] = []
    with started("serve", "--data", data, "--open", "--listen", "127.0.0.1:0") as process:
        with dray.connect(url_of(process)) as manager:
            queue = manager.queue("orders")
            while True:
                try:
                    received.append(bytes(queue.receive(timeout=0).body))
                except dray.StoreCorrupt as error:
                    if error.event != 2083:
                        raise
                except dray.ReceiveTimeout:
                    break
            infos = {info.name: info for info in manager.queues()}
            aside = infos[QUARANTINE].message_count if QUARANTINE in infos else 0
        process.terminate()
        said = finish(process).err
    return received, aside, said


def test_the_newest_message_of_a_killed_manager_is_quarantined_and_named_when_a_bit_of_it_flips(
    tmp_path,
):
    data, chance = tmp_path / "d", random.Random(1)
    # Longer than any that the log has a copy of.
    bodies = [chance.randbytes(COPIED_BYTES_MAX + 1) for _ in range(5)]
    killed_after(data, bodies)
    path, at = place_of(data, bodies[-1])
    flip(path, at + 1500)
    checked = command("check", "--data", data)
    assert checked.status == 42
    assert f"damage: {path.name}: the record at byte" in checked.out
    assert "queue 'orders' at position 5" in checked.out
    received, aside, said = what_a_start_gives(data)
    assert received == bodies[:-1]
    assert aside == 1
    assert f"event 2083: the message at position 5 is damaged in {path.name}" in said


@pytest.mark.parametrize("which", OLDER_FILES)
def test_older_files_put_back_within_a_second_of_the_last_commit_are_refused(tmp_path, which):
    data = tmp_path / "d"
    killed_after(data, [b"%d" % number for number in range(40)], copy_after=20)
    for pattern in OLDER_FILES[which]:
        for path in (tmp_path / "older/storage").glob(pattern):
            shutil.copy(path, data / "storage")
    refused = command("serve", "--data", data, "--open", "--listen", "127.0.0.1:0")
    assert refused.status == 42
    assert "event 2079: QMLog" in refused.err
    assert "older than the other files" in refused.err
    assert command("check", "--data", data).status == 42


@pytest.mark.parametrize("which", ["MQ*.lg?", "l0*.mq"])
def test_older_checkpoints_or_maps_put_back_lose_nothing(tmp_path, which):
    data = tmp_path / "d"
    bodies = [b"%d" % number for number in range(40)]
    killed_after(data, bodies, copy_after=20)
    for path in (tmp_path / "older/storage").glob(which):
        shutil.copy(path, data / "storage")
    assert what_a_start_gives(data)[0] == bodies


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(40))
def test_no_bit_of_what_is_newest_flips_without_a_word(tmp_path, seed, went_through):
    """In the payload of the last commit, or in the last page of the log."""
    data, chance = tmp_path / "d", random.Random(seed)
    bodies: list[bytes] = []
    for _ in range(2):
        sizes = [chance.randrange(16, 30_000) for _ in range(chance.randrange(1, 9))]
        new = [chance.randbytes(size) for size in sizes]
        killed_after(data, new)
        bodies += new
        went_through["kills"] += 1
    path, at = place_of(data, bodies[-1])
    at += chance.randrange(len(bodies[-1]))
    if seed % 2:
        path = data / "storage/QMLog"
        at = chance.randrange(512, len(path.read_bytes().rstrip(b"\0")))
    flip(path, at, chance.randrange(8))
    went_through["flipped bits"] += 1
    checked = command("check", "--data", data)
    # Event 2083 names messages, and no start refuses for them.
    refused = re.search("event 20(?!83)", checked.out)
    if refused:
        assert checked.status == 42
        started_again = command("serve", "--data", data, "--open", "--listen", "127.0.0.1:0")
        assert started_again.status == 42
        return
    received, aside, said = what_a_start_gives(data)
    if received != bodies:
        assert received == bodies[:-1]
        assert (aside, checked.status) == (1, 42)
        assert "event 2083" in said
