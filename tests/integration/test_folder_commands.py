"""The options of `dray send DIR` and `dray watch`, by the installed program."""

from __future__ import annotations

import subprocess

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import (
    COMMAND,
    environment,
)
from tests.integration.commands import dray as run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with ManagerProcess("folders", tmp_path_factory.mktemp("commands")) as process:
        yield process


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    for name in ("a", "b/c", ".hidden"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    (folder / "link").symlink_to("a")
    return folder


def taken(manager, name):
    """The paths and the transactions of the files in a queue, in their order."""
    large, found = dray.LargeMessageQueue(manager.queue(name)), []
    while manager.queue(name).info().message_count:
        with large.receive(0) as message:
            found.append((message.file.path, message.transaction_id))
    return found


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ([], ["a", "b/c"]),
        (["--hidden"], [".hidden", "a", "b/c"]),
        (["--follow-links"], ["a", "b/c", "link"]),
        (["--include", "/b/**"], ["b/c"]),
        (["--exclude", "b/"], ["a"]),
    ],
    ids=" ".join,
)
def test_a_dry_run_names_the_files_that_a_run_sends(process, folder, options, paths):
    with process.connect() as manager:
        manager.create_queue("goal", exist_ok=True)
        send = ["send", "goal", folder, "--large", *options]
        said = run("--json", *send, "--dry-run", url=process.url).assert_good()
        lines = [each for each in said.out.splitlines() if '"left_out"' not in each]
        assert [line.split('"')[3] for line in lines] == paths
        assert taken(manager, "goal") == []
        run(*send, url=process.url).assert_good()
        # Their transactions commit side by side.
        assert sorted(path for path, _ in taken(manager, "goal")) == paths


@pytest.mark.parametrize(
    ("option", "transactions"), [([], 2), (["--batch", "2"], 1), (["--one-transaction"], 1)]
)
def test_files_share_a_transaction_if_that_was_asked_for(process, folder, option, transactions):
    with process.connect() as manager:
        manager.create_queue("shared", exist_ok=True)
        run("send", "shared", folder, "--large", *option, url=process.url).assert_good()
        assert len({transaction for _, transaction in taken(manager, "shared")}) == transactions


def test_a_changed_file_is_skipped_if_that_was_asked_for(process, folder, tmp_path):
    with process.connect() as manager:
        manager.create_queue("changed", exist_ok=True)
        send = ["send", "changed", folder, "--large", "--state", tmp_path / "state"]
        run(*send, url=process.url).assert_good()
        taken(manager, "changed")
        (folder / "a").write_bytes(b"another")
        run(*send, "--changed", "skip", url=process.url).assert_good()
        assert taken(manager, "changed") == []
        run(*send, url=process.url).assert_good()
        assert [path for path, _ in taken(manager, "changed")] == ["a"]


def test_a_polled_watch_sends_a_file_when_its_ready_suffix_appears(process, folder, tmp_path):
    with process.connect() as manager:
        large = dray.LargeMessageQueue(manager.create_queue("ready"))
        options = ["--state", tmp_path / "state", "--poll", "0.1", "--ready-suffix", ".done"]
        watch = subprocess.Popen(
            [*COMMAND, "watch", folder, "ready", *options],
            env=environment(process.url),
            stdout=subprocess.DEVNULL,
        )
        try:
            (folder / "b/c.done").touch()
            with large.receive(60) as message:
                assert message.file.path == "b/c"
            assert manager.queue("ready").info().message_count == 0
        finally:
            watch.terminate()
        assert watch.wait(60) == 0
