"""`dray receive --to DIR` killed at each of its calls that concern the directory.

However it was killed, run again the directory has the file once, whole, and nothing else.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
import shutil
import subprocess

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, WITHIN_S, environment
from tests.integration.commands import dray as run
from tests.integration.commands import run as run_module

pytestmark = pytest.mark.slow

FRAGMENT = 300_000
BODY = random.Random(7).randbytes(2 * FRAGMENT + 7)
PARTY = "tests.crash.receive_party"
PATH = "below/b/a.txt"
LEDGER = f".dray-tree-{os.geteuid()}/received.sqlite"
SYSTEM_CALLS = (
    "mkdir", "mkdirat", "ftruncate", "write", "pwrite64", "copy_file_range", "sendfile", "fsync",
    "fdatasync", "fchmod", "utimensat", "link", "linkat", "rename", "renameat", "unlink",
    "unlinkat", "rmdir", "flock", "close_range", "vfork", "wait4",
)  # fmt: skip
"""Calls that change something; a kill between two of them is one at the second."""
TREE = ("--large", "--tree", "--preserve")
TOGETHER = (*TREE, "--max", "2")
"""Two small files, which are taken by one request and placed together."""
FILES = {PATH: b"small", "below/c": b"smaller"}
COMMAND_FOR_EACH = (*TREE, "--exec", "true {path}")


class Stage:
    """A queue with messages of one label, and a directory to receive into."""

    def __init__(self, manager, path, url, how):
        self.manager, self.url, self.out = manager, url, path / "out"
        self.large = "--large" in how
        self.tree = "--tree" in how
        self.files = FILES if how == TOGETHER else {PATH: BODY}
        # Several tests share the queue manager, and name their folders alike.
        self.queue = f"{path.name[-40:]}-{secrets.token_hex(4)}"
        self.command = ["receive", self.queue, "--to", str(self.out), *how]
        with manager.connect() as connected:
            connected.create_queue("statusq", exist_ok=True)
            connected.create_queue(self.queue)

    def send(self):
        with self.manager.connect() as connected:
            queue = connected.queue(self.queue)
            if self.large:
                large = dray.LargeMessageQueue(queue, fragment_size=FRAGMENT)
                with connected.transaction() as transaction:
                    for path, body in self.files.items():
                        file = dray.FileProperties(path, len(body), 1_700_000_000_000_000_000)
                        large.send(body, label="a.txt", file=file, transaction=transaction)
                return
            with connected.transaction() as transaction:
                queue.send(BODY, label="a.txt", transaction=transaction)

    def killed(self, when, count):
        """Receive one message and be killed at a call; the calls that there were without it."""
        done = run_module(PARTY, self.out, when, count, *self.command, url=self.url)
        assert done.status == (-9 if count else 0), done
        return done.err.rpartition("calls: ")[2].split()

    def receive_again(self):
        """The same command once more, if its message is still there."""
        with self.manager.connect() as connected:
            left = connected.queue(self.queue).info()
        left = left.large_count if self.large else left.message_count
        said = run(*self.command, "--max", left or 1, "--timeout", 100 if left else 0, url=self.url)
        if left:
            said.assert_good()
        else:
            said.assert_error("receive-timeout")
        with self.manager.connect() as connected:
            assert connected.queue(self.queue).info().message_count == 0

    def assert_received_once(self):
        found = {str(each.relative_to(self.out)) for each in self.out.rglob("*") if each.is_file()}
        # The ledger of a tree stays.
        assert found == ({*self.files, LEDGER} if self.tree else {"a.txt"})
        for path, body in self.files.items():
            assert (self.out / (path if self.tree else "a.txt")).read_bytes() == body
        assert len(list(self.out.iterdir())) == (2 if self.tree else 1)

    def kill_at_each_call(self, when):
        self.send()
        calls = self.killed(when, 0)
        self.assert_received_once()
        assert {"mkdir", "link", "unlink"} <= set(calls)
        for count, call in enumerate(calls, 1):
            shutil.rmtree(self.out)
            self.send()
            self.killed(when, count)
            self.receive_again()
            try:
                self.assert_received_once()
            except AssertionError as error:
                raise AssertionError(f"{when} call {count}, {call}") from error
        return len(calls)


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    path = tmp_path_factory.mktemp("receive")
    with ManagerProcess("manager", path, ["--socket", str(path / "s")]) as process:
        yield process


def stage_of(manager, tmp_path, *how, lent=False):
    url = f"dray+unix://{manager.data.parent / 's'}" if lent else manager.url
    return Stage(manager, tmp_path, url, how)


@pytest.mark.parametrize("how", [(), ("--large",), TOGETHER], ids=["plain", "large", "together"])
def test_a_receiver_killed_before_each_change_of_its_directory_receives_once(
    manager, tmp_path, how, went_through
):
    went_through["kills"] = stage_of(manager, tmp_path, *how).kill_at_each_call("before")


@pytest.mark.parametrize("syscalls", ["mkdir", "link,linkat", "unlink,unlinkat", "fsync", "rmdir"])
@pytest.mark.parametrize("how", [(), ("--large",)], ids=["plain", "large"])
def test_a_receiver_killed_by_the_kernel_at_its_first_system_call_receives_once(
    manager, tmp_path, how, syscalls
):
    """As strace kills it; the test above needs no tool and kills at every call."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here")
    stage_killed_by(strace, stage_of(manager, tmp_path, *how), tmp_path, syscalls)


@pytest.mark.parametrize(
    "syscalls",
    ["mkdir,mkdirat", "link,linkat", "unlink,unlinkat", "fsync", "fdatasync", "pwrite64"],
)
def test_a_receiver_of_a_tree_killed_by_the_kernel_at_a_system_call_receives_once(
    manager, tmp_path, syscalls
):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here")
    stage_killed_by(strace, stage_of(manager, tmp_path, *TOGETHER), tmp_path, syscalls)


@pytest.mark.parametrize("syscalls", ["fchmod", "wait4"])
def test_a_receiver_killed_around_the_command_of_a_file_receives_once(manager, tmp_path, syscalls):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here")
    stage_killed_by(strace, stage_of(manager, tmp_path, *COMMAND_FOR_EACH), tmp_path, syscalls)


@pytest.mark.torture
@pytest.mark.parametrize(
    "how",
    [("--large",), TREE, TOGETHER, COMMAND_FOR_EACH],
    ids=["large", "tree", "together", "command"],
)
def test_a_receiver_killed_by_the_kernel_at_each_of_its_system_calls_receives_once(
    manager, tmp_path, how, went_through
):
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("there is no strace here")
    stage, kills = stage_of(manager, tmp_path, *how), 0
    # The command itself makes that one, and a command that is killed has failed.
    not_ours = {"close_range"} if how == COMMAND_FOR_EACH else set()
    for syscall in (each for each in SYSTEM_CALLS if each not in not_ours):
        for count in itertools.count(1):
            if stage.out.exists():
                shutil.rmtree(stage.out)
            if not killed_by(strace, stage, tmp_path, syscall, count=count):
                break
            kills += 1
    assert kills > 20
    went_through["kills"] = kills


def stage_killed_by(strace, stage, tmp_path, syscalls):
    """Receive and be killed at the first of such calls; then receive again."""
    assert killed_by(strace, stage, tmp_path, syscalls, count=1)


def killed_by(strace, stage, tmp_path, syscalls, *, count):
    """Receive, be killed at a call of such a kind, receive again; False if there was none."""
    stage.send()
    inject = [
        strace,
        "-f",
        "-o",
        tmp_path / "trace",
        "-e",
        f"inject={syscalls}:signal=KILL:when={count}",
    ]
    killed = subprocess.run(
        [*inject, *COMMAND, *stage.command],
        capture_output=True,
        check=False,
        env=environment(stage.url) | {"PYTHONDONTWRITEBYTECODE": "1"},
        timeout=WITHIN_S,
    )
    assert killed.returncode in {0, -9}, killed
    if killed.returncode == -9:
        stage.receive_again()
    stage.assert_received_once()
    return killed.returncode == -9


@pytest.mark.torture
@pytest.mark.parametrize(
    "how", [(), ("--large",), ("--large", "--resume"), ("--no-sync",), TREE, TOGETHER]
)
def test_a_receiver_killed_at_each_change_of_its_directory_receives_once(
    manager, tmp_path, how, went_through
):
    kills = 0
    for lent in (False, True):
        for when in ("before", "after"):
            path = tmp_path / f"{when}-{lent}"
            path.mkdir()
            kills += stage_of(manager, path, *how, lent=lent).kill_at_each_call(when)
    went_through["kills"] = kills
