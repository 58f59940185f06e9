"""A manifest lists the files of a run, and `dray verify` compares a directory with it."""

from __future__ import annotations

import json
import os

import pytest

import dray
import dray.folders
from dray.testing.processes import ManagerProcess
from tests.integration.commands import dray as run

pytestmark = pytest.mark.slow
FILES = {b"a": b"first", b"b/c": b"", b"b/not-utf8-\xe9": b"x" * 300_000}


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with ManagerProcess("manifests", tmp_path_factory.mktemp("manifests")) as process:
        yield process


@pytest.fixture
def folder(tmp_path):
    for name, body in FILES.items():
        path = tmp_path / "folder" / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return tmp_path / "folder"


def saved(process, queue, target):
    """Save every file of a queue below `target`; the paths in their order."""
    paths = []
    with process.connect() as manager:
        large = dray.LargeMessageQueue(manager.queue(queue))
        while manager.queue(queue).info().message_count:
            with large.receive(0) as message:
                path = target / message.file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                message.save_to(path)
                paths.append(path)
    return paths


@pytest.fixture
def arrived(process, folder, tmp_path, request):
    """A directory with the files that a run has sent, and its manifest, which came last."""
    name = request.node.name[:60].replace("[", "-").replace("]", "")
    with process.connect() as manager:
        manager.create_queue(name)
    run("send", name, folder, "--large", "--manifest", url=process.url).assert_good()
    *_, manifest = saved(process, name, tmp_path / "target")
    return tmp_path / "target", manifest


def test_the_last_message_of_a_run_lists_each_file(arrived):
    _, manifest = arrived
    entries = [json.loads(line) for line in manifest.read_bytes().splitlines()]
    assert manifest.name.startswith("dray-manifest-")
    assert [(each["path"], each["size"]) for each in entries] == [
        ("a", 5), ("b/c", 0), ("b/not-utf8-\\xe9", 300_000),
    ]  # fmt: skip
    assert all(each["digest"].startswith("blake3:") for each in entries)


def test_verify_finds_a_directory_as_it_was_sent(arrived):
    target, manifest = arrived
    (target / "another").write_bytes(b"not of the run")
    said = run("verify", target, manifest).assert_good()
    assert "every file is as it was sent" in said.out
    assert dray.folders.verify(target, manifest) == []


def test_verify_names_each_file_that_is_not_as_it_was_sent(arrived):
    target, manifest = arrived
    (target / "a").write_bytes(b"FIRST")
    (target / "b/c").unlink()
    (target / os.fsdecode(b"b/not-utf8-\xe9")).write_bytes(b"short")
    said = run("--json", "verify", target, manifest)
    assert said.status == 1
    assert {each["path"]: each["reason"] for each in said.value} == {
        "a": "its contents are not those that were sent",
        "b/c": "it is missing",
        "b/not-utf8-\\xe9": "it has 5 bytes, and 300000 were sent",
    }


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "b/../../a", ""])
def test_verify_reads_nothing_outside_the_directory(path, tmp_path):
    (tmp_path / "target").mkdir()
    manifest = tmp_path / "manifest"
    entry = {"path": path, "size": 0, "digest": "blake3:00"}
    manifest.write_text(json.dumps(entry))
    (found,) = dray.folders.verify(tmp_path / "target", manifest)
    assert found.reason == "its path leads out of the directory"


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "{}",
        '{"path":"a","size":1,"digest":"md5:1"}',
        pytest.param('{"x":' + "[" * 100_000, id="deep"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused_in_one_line(text, tmp_path):
    manifest = tmp_path / "manifest"
    manifest.write_text(text)
    run("verify", tmp_path, manifest).assert_error("invalid-configuration")


def test_a_run_that_sends_nothing_sends_no_manifest(process, folder, tmp_path):
    with process.connect() as manager:
        queue = manager.create_queue("twice")
        send = ["send", "twice", folder, "--large", "--manifest", "--state", tmp_path / "state"]
        run(*send, url=process.url).assert_good()
        saved(process, "twice", tmp_path / "target")
        run(*send, url=process.url).assert_good()
        assert queue.info().message_count == 0
