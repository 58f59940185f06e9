"""What a neighbour finds of a queue manager's files: nothing that it could open."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import dray
from dray.client.awaited.backup import whole_or_absent
from dray.client.files.upload_state import VERSION, UploadNote, UploadOrigin, UploadStateFile
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.model.limits import MIB
from dray.store.manifest import MANIFEST_NAME, Identity, Manifest, overwrite_manifest
from tests.integration.commands import dray as command

pytestmark = pytest.mark.slow


@pytest.fixture
def _no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """Files and folders that another account of the machine could open, with their modes."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if mode & 0o077 or stat.S_ISLNK(mode):
            found[str(path.relative_to(folder))] = stat.filemode(mode)
    return found


@pytest.mark.usefixtures("_no_umask")
def test_a_neighbour_can_open_no_file_of_a_store_or_a_backup(tmp_path):
    data, copy, moved = tmp_path / "data", tmp_path / "copy", tmp_path / "moved"
    options = ServeOptions(
        data="", listen="127.0.0.1:0", open=True, socket=str(tmp_path / "dray.sock")
    )
    daemon = EmbeddedDaemon(data, options)
    daemon.start()
    try:
        with dray.connect(daemon.addresses[0]) as manager:
            manager.create_queue("orders", journal=True)
            manager.queue("orders").send_many([b"one", b"two", bytes(3 * MIB)])
            manager.queue("orders").receive(timeout=20)
            manager.backup(tmp_path / "running.dray")
        assert open_to_others(tmp_path) == {}
    finally:
        daemon.stop()
    command("backup", "--data", data, tmp_path / "stopped.dray").assert_good()
    command("restore", tmp_path / "running.dray", copy).assert_good()
    command("storage", "move", "--data", data, moved).assert_good()
    assert open_to_others(tmp_path) == {}


def test_a_link_planted_where_a_backup_grows_is_not_followed(tmp_path, monkeypatch):
    victim, target = tmp_path / "victim", tmp_path / "a.dray"
    victim.write_bytes(b"precious")
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: "0123abcd")
    target.with_name(f".a.dray.{os.getpid()}.0123abcd.part").symlink_to(victim)
    with whole_or_absent(target) as file:
        file.write(b"backup")
    assert (victim.read_bytes(), target.read_bytes()) == (b"precious", b"backup")


def test_a_link_planted_where_the_state_of_an_upload_grows_is_not_followed(tmp_path):
    victim, path = tmp_path / "victim", tmp_path / "state"
    victim.write_bytes(b"precious")
    path.with_name("state.partial").symlink_to(victim)
    state = UploadStateFile(path)
    note = UploadNote(VERSION, "id", "queue", UploadOrigin("", 1, ""))
    state.write(note)
    assert (victim.read_bytes(), state.read()) == (b"precious", note)


@pytest.mark.parametrize("name", ["storage/QMLog", "storage/lock"])
def test_a_store_writes_through_no_second_name_of_a_file(tmp_path, name):
    data, victim = tmp_path / "data", tmp_path / "victim"
    with dray.open(data) as manager:
        manager.create_queue("orders").send(b"1")
    victim.hardlink_to(data / name)
    before = victim.read_bytes()
    told = f"{Path(name).name} (is|has) a second name"
    with pytest.raises(dray.DrayError, match=told):
        dray.open(data)
    assert victim.read_bytes() == before
    victim.unlink()
    with dray.open(data) as manager:
        assert manager.queue("orders").receive(timeout=0).body == b"1"


def test_a_link_planted_in_place_of_a_manifest_is_not_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / MANIFEST_NAME).symlink_to(victim)
    manifest = Manifest(closed=True, identity=Identity("", 0, 0), files={}, store=True)
    with pytest.raises(OSError, match="is a symbolic link; put the file"):
        overwrite_manifest(tmp_path, manifest)
    assert victim.read_bytes() == b"precious"
