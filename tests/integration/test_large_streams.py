"""What nobody knows the length of before its end, through the real commands and two managers."""

from __future__ import annotations

import hashlib
import random
import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

from dray.model.limits import MIB
from dray.store.limits import HEAP_FILE_BYTES
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, dray, environment, finish, until

GROWTH_BYTES_MAX = 64 * MIB
CHUNK_BYTES = 1_000_003
"""Fits neither a page nor a fragment."""


@pytest.fixture
def managers(tmp_path):
    with (
        ManagerProcess("source", tmp_path) as source,
        ManagerProcess("there", tmp_path) as there,
    ):
        with there.connect() as manager:
            for name in ("landing", "statusq"):
                manager.create_queue(name)
        yield source, there


@contextmanager
def sending(managers, *options):
    """A `dray send` that takes what is written to its standard input."""
    source, there = managers
    command = ["send", f"{there.url}/landing", "--large", "--stdin", *options]
    process = subprocess.Popen(
        [*COMMAND, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(source.url),
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def chunks(size):
    chance = random.Random(size)
    for start in range(0, size, CHUNK_BYTES):
        yield chance.randbytes(min(CHUNK_BYTES, size - start))


def feed(process, size):
    """Write so many bytes into it; their digest, and by how much it has grown meanwhile."""
    digest, before = hashlib.sha256(), 0
    for chunk in chunks(size):
        process.stdin.write(chunk)
        digest.update(chunk)
        # A pipe does not hold a chunk: it reads already.
        before = before or peak(process.pid)
    process.stdin.flush()
    return digest.hexdigest(), peak(process.pid) - before


def placed_bytes(source):
    """What a manager has had to find room for, committed or not."""
    with source.connect() as manager:
        return manager.info().heap_files * HEAP_FILE_BYTES


def peak(pid):
    """The most memory that a process has had, in bytes."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) << 10


def saved(managers, folder):
    """What comes out at the other end: the path and what was said of it."""
    told = dray("receive", "landing", "--large", "--to", folder, "--json", url=managers[1].url)
    return told.assert_good().value


def digest_of(path):
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.parametrize(
    ("lost", "size"),
    [
        pytest.param(40 * MIB, 30 * MIB + 1, marks=pytest.mark.slow),
        pytest.param(
            400 * MIB, 1024 * MIB + 1, marks=[pytest.mark.torture, pytest.mark.timeout(900)]
        ),
    ],
)
def test_a_stream_arrives_whole_and_nothing_of_one_whose_sender_was_lost(
    managers, tmp_path, lost, size
):
    """One sender is killed in the middle of its message; what another sends is all that comes."""
    source, there = managers
    before = {each: peak(each.pid) for each in managers}
    with sending(managers, "--label", "lost") as process:
        feed(process, lost)
        until(lambda: placed_bytes(source) > lost // 2)
        process.kill()
    with sending(managers, "--label", "found", "--digest", "sha256") as process:
        digest, grown = feed(process, size)
        finish(process).assert_good()
    assert grown < GROWTH_BYTES_MAX
    came = saved(managers, tmp_path / "out")
    assert (came["label"], came["size"], came["digest"]) == ("found", size, digest)
    assert digest_of(came["path"]) == digest
    for each in managers:
        assert peak(each.pid) - before[each] < GROWTH_BYTES_MAX, each.name
    with source.connect() as here, there.connect() as far:
        until(lambda: here.info().bytes_used == far.info().bytes_used == 0)
