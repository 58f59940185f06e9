"""Promises about getting in: addresses, directories, what happens when the other end goes away."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dray
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon


@pytest.mark.parametrize(
    "url",
    [
        "",
        "nonsense",
        "http://host:1",
        "dray://",
        "dray://host:port",
        "dray://host:99999",
        "dray://host/queue",
        "dray+unix://host/path",
        "dray+unix:relative",
        "drays://",
        "drays://host/queue",
    ],
)
def test_an_address_that_is_none_is_refused(face, url):
    with pytest.raises(dray.InvalidConfiguration):
        face.connect(url)


def test_nobody_at_the_address_is_told(face, tmp_path):
    for url in ("dray://127.0.0.1:1", f"dray+unix://{tmp_path}/none.sock"):
        with pytest.raises(dray.ConnectionLost, match="dray serve"):
            face.connect(url)


def test_a_data_directory_of_a_live_queue_manager_is_locked(face, tmp_path):
    with face.open(tmp_path / "data"), pytest.raises(dray.StoreLocked):
        face.open(tmp_path / "data")
    face.open(tmp_path / "data").close()


def test_a_directory_without_a_name_is_refused(face):
    with pytest.raises(dray.InvalidArgument, match="path is a path"):
        face.open("")


def test_what_is_in_a_directory_is_there_when_it_is_opened_again(face, tmp_path):
    with face.open(tmp_path / "data", name="mine") as manager:
        manager.create_queue("orders").send(b"kept")
        identity = manager.info().id
    with face.open(tmp_path / "data") as manager:
        assert manager.info().id == identity
        assert manager.queue("orders").receive(0).body == b"kept"


def test_a_backup_is_restored_into_a_new_directory(face, tmp_path):
    with face.open(tmp_path / "data") as manager:
        manager.create_queue("orders").send(b"kept")
        manager.backup(tmp_path / "a.dray")
    told = []
    report = face.restore(
        tmp_path / "a.dray", tmp_path / "new", progress=lambda *done: told.append(done)
    )
    assert report.messages == 1
    assert told[-1][0] == told[-1][1]
    with face.open(tmp_path / "new") as manager:
        assert manager.queue("orders").receive(0).body == b"kept"
    (tmp_path / "b.dray").write_bytes(b"none")
    with pytest.raises(dray.BackupDamaged):
        face.restore(tmp_path / "b.dray", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_an_embedded_queue_manager_can_listen_too(face, tmp_path):
    with face.open(tmp_path / "data", listen="127.0.0.1:0", open=True, quota=None) as manager:
        assert manager.info().quota is None


@pytest.mark.parametrize(
    "option", [{"unknown": 1}, {"data": "x"}, {"socket": "a\0b"}, {"quota": "x"}]
)
def test_an_option_that_is_none_is_refused(face, tmp_path, option):
    with pytest.raises(dray.InvalidConfiguration):
        face.open(tmp_path / "data", **option)


def test_a_closed_manager_says_so(face, tmp_path):
    manager = face.open(tmp_path / "data")
    queue = manager.create_queue("orders")
    manager.close()
    manager.close()
    with pytest.raises(dray.ConnectionLost, match="closed"):
        queue.send(b"")


@pytest.mark.slow
def test_the_next_call_connects_anew_after_the_daemon_was_restarted(face, tmp_path):
    socket_path = tmp_path / "dray.sock"

    def start():
        daemon = EmbeddedDaemon(tmp_path / "data", ServeOptions(data="", socket=str(socket_path)))
        daemon.start()
        return daemon

    daemon = start()
    with face.connect(f"dray+unix://{socket_path}") as manager:
        queue = manager.create_queue("orders")
        queue.send(b"before")
        pending = manager.transaction()
        queue.send(b"never", transaction=pending)
        daemon.stop()
        with pytest.raises(dray.ConnectionLost):
            queue.send(b"nobody there")
        daemon = start()
        queue.send(b"after")
        with pytest.raises(dray.TransactionAborted):
            queue.send(b"never", transaction=pending)
        with pytest.raises(dray.TransactionAborted):
            pending.commit()
        assert pending.status is dray.TransactionStatus.ABORTED
        assert [message.body for message in queue.messages()] == [b"before", b"after"]
    daemon.stop()


def test_the_door_names_every_error_and_nothing_private():
    from dray.errors import every_error

    public = set(dray.__all__)
    assert {error.__name__ for error in every_error().values()} <= public
    assert all(hasattr(dray, name) for name in public)


def test_the_awaited_face_is_there_without_being_imported():
    program = "import dray; dray.aio.connect, dray.aio.open, dray.aio.LargeMessageQueue"
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AttributeError, match="nonsense"):
        dray.nonsense  # noqa: B018 - asking is what is tested


def test_the_door_names_what_it_gives(tmp_path):
    with dray.open(tmp_path / "data") as manager:
        assert isinstance(manager, dray.Manager)
        assert isinstance(manager.create_queue("orders"), dray.Queue)
        with manager.transaction() as transaction:
            assert isinstance(transaction, dray.Transaction)


def test_a_low_water_mark_that_the_disk_never_reaches_is_refused_and_another_works(tmp_path):
    with pytest.raises(dray.DrayError, match=r"low_water: .* can never have") as raised:
        dray.open(tmp_path / "data", low_water="1000000TiB")
    assert raised.value.code == "invalid-configuration"
    with dray.open(tmp_path / "data", low_water="1KiB") as manager:
        manager.create_queue("orders").send(b"x")
        info = manager.info()
        assert (info.low_water, info.disk_free > info.low_water) == (1024, True)
