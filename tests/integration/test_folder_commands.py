"""The options of `dray send DIR` and `dray watch`, by the installed program."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

import dray
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, environment, finish, started, words
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


@pytest.mark.parametrize(
    "option",
    [
        ("--label", "x"), ("--correlation-id", "x"), ("--app-specific", "1"), ("--priority", "1"),
        ("--no-dead-letter",), ("--resume", "state"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_option_of_single_messages_is_refused_with_a_folder(folder, option):
    said = run("send", "goal", folder, "--large", *option, url="dray://127.0.0.1:1")
    assert said.status == 2, said
    assert "is for files, not for a directory" in said.err


def test_the_files_of_a_folder_are_compressed_if_that_was_asked_for(process, folder):
    (folder / "zeros").write_bytes(bytes(1_000_000))
    with process.connect() as manager:
        queue = manager.create_queue("compressed")
        options = ["--compression", "zstd", "--digest", "sha256"]
        run("send", "compressed", folder, "--large", *options, url=process.url).assert_good()
        assert queue.info().byte_count < 100_000
        assert {path for path, _ in taken(manager, "compressed")} == {"a", "b/c", "zeros"}


def test_a_dry_run_with_a_ledger_names_only_what_was_not_sent(process, folder, tmp_path):
    with process.connect() as manager:
        manager.create_queue("remembered")
        send = ["send", "remembered", folder, "--large", "--state", tmp_path / "state"]
        first = run(*send, "--dry-run", url=process.url).assert_good().out.splitlines()
        assert first == ["would send a (1 B)", "would send b/c (3 B)"]
        assert not (tmp_path / "state").exists(), "nothing is changed"
        run(*send, url=process.url).assert_good()
        assert run(*send, "--dry-run", url=process.url).assert_good().out == ""
        (folder / "a").write_bytes(b"another")
        assert "would send a" in run(*send, "--dry-run", url=process.url).assert_good().out
        skip = ["--changed", "skip", "--dry-run"]
        assert run(*send, *skip, url=process.url).assert_good().out == ""


def test_a_file_that_stays_in_its_folder_is_named_and_the_status_says_so(process, folder, tmp_path):
    done = tmp_path / "done"
    done.mkdir()
    (done / "b").write_bytes(b"a file where a folder is to be")
    with process.connect() as manager:
        manager.create_queue("staying")
        send = ["send", "staying", folder, "--large", "--after", f"move:{done}"]
        said = run(*send, url=process.url)
    assert said.status == dray.TargetUnwritable.exit_status, said
    assert "dray: b/c is left out: it was sent and cannot be removed from its folder" in said.err
    assert "sent 2 files" in said.out
    assert (folder / "b/c").exists()
    assert (done / "a").exists()


def test_a_watch_whose_ledger_is_removed_ends_with_a_sentence_and_sends_nothing_more(
    process, folder, tmp_path
):
    with process.connect() as manager:
        queue = manager.create_queue("forgetful")
        (folder / "link").unlink()
        watch = ("watch", folder, "forgetful", "--state", tmp_path / "state", "--settle", "0")
        with started(*watch, url=process.url) as watching:
            assert [watching.stdout.readline()[:4] for _ in range(2)] == [b"sent", b"sent"]
            (tmp_path / "state").rename(tmp_path / "elsewhere")
            (folder / "new").write_bytes(b"new")
            finish(watching).assert_error("invalid-configuration")
        assert queue.info().large_count == 2
        (tmp_path / "elsewhere").rename(tmp_path / "state")
        with started(*watch, url=process.url) as watching:
            assert watching.stdout.readline() == b"sent new (3 B)\n"


def test_an_interrupted_watch_or_send_of_a_folder_says_how_many_files_were_sent(
    process, folder, tmp_path
):
    with process.connect() as manager:
        manager.create_queue("interrupted")
    state = ("--state", tmp_path / "state")
    for command, files in (
        (("watch", folder, "interrupted", *state, "--settle", "0"), "2 files"),
        (("send", "interrupted", folder, "--large", *state, "--wait=received"), "1 file"),
    ):
        with started(*command, url=process.url) as sending:
            sent = int(files[0])
            assert [sending.stdout.readline()[:4] for _ in range(sent)] == [b"sent"] * sent
            sending.send_signal(signal.SIGINT)
            said = finish(sending)
        assert (said.status, said.err.splitlines()[-1]) == (
            130,
            (
                f"dray: interrupted; {files} known to be sent to interrupted; the same command"
                " sends the rest"
            ),
        )
        (folder / "more").write_bytes(b"more")


def test_show_and_peek_have_the_properties_of_a_file(process, folder):
    os.utime(folder / "b/c", ns=(1, 1_700_000_000_123_456_789))
    (folder / "b/c").chmod(0o640)
    with process.connect() as manager:
        queue = manager.create_queue("shown")
        options = ["--large", "--include", "/b/c"]
        run("send", "shown", folder, *options, url=process.url).assert_good()
        (message,) = queue.contents()
    file = {"path": "b/c", "size": 3, "mtime_ns": 1_700_000_000_123_456_789, "mode": 0o640}
    peeked = run("peek", "shown", "--large", "--json", url=process.url).assert_good()
    assert peeked.value["file"] == file
    show = ("show", "shown", message.id)
    assert run(*show, "--json", url=process.url).assert_good().value["file"] == file
    told = dict(words(run(*show, url=process.url).assert_good().out))
    assert (told["file path"], told["file mode"]) == ("b/c", "0640")
    assert told["file time"].startswith("2023-11-14"), told


def test_a_watch_says_that_the_kernel_watches_no_more_folders(process, folder, tmp_path):
    """Made by a limit of its own user namespace; the kernel says nothing when it is reached."""
    limit = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    script = 'echo 2 > /proc/sys/user/max_inotify_watches && exec "$@"'
    if subprocess.run([*limit, script, "-", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user can make no namespace")
    (folder / "deep/er").mkdir(parents=True)
    with process.connect() as manager:
        manager.create_queue("many")
        (folder / "link").unlink()
        watch = subprocess.Popen(
            [*limit, script, "-", *COMMAND, "watch", folder, "many", "--state", tmp_path / "state"],
            env=environment(process.url),
            stderr=subprocess.PIPE,
        )
        try:
            said = watch.stderr.readline().decode()
        finally:
            watch.terminate()
            watch.communicate(timeout=60)
    assert said.startswith(f"dray: the kernel watches all folders below {folder} but 2, "), said


def test_seconds_may_have_a_unit(process, folder, tmp_path):
    with process.connect() as manager:
        manager.create_queue("timed")
    watch = ("watch", folder, "timed", "--state", tmp_path / "state", "--settle")
    with started(*watch, "20ms", url=process.url) as watching:
        assert watching.stdout.readline()[:4] == b"sent"
    for wrong in ("2 weeks", "-1s", "nan", "s", "1.2.3s"):
        said = run(*watch, wrong, url=process.url)
        assert (said.status, "--settle" in said.err) == (2, True), said
