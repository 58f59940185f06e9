"""Files of queues: as the state has them, mended at start, taken over where people may edit."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from dray.errors import StoreCorrupt, StoreError, StoreFull, StorePoisoned
from dray.manager.events import ManagerConfig, Request, SessionOpened
from dray.manager.turn import QueueManager
from dray.model.callers import OWNER
from dray.model.message import Message
from dray.model.queue import QueueOptions
from dray.offline.checking import check_store
from dray.store.disk import no_access
from dray.store.lqs import decode, file_name
from dray.store.real_disk import RealDisk
from dray.store.store import Store
from dray.testing.disk import SimDisk
from dray.wire import frames, queue_frames
from dray.wire.stream import Frame
from tests.inspection import look_into
from tests.unit.manager.conftest import ManagerDriver

ORDERS = file_name(16, "\\private$\\orders")
ADMIN, NOTIFY, ORDER = (
    file_name(number, name)
    for number, name in enumerate(("admin_queue$", "notify_queue$", "order_queue$"), 2)
)


class FilesDriver(ManagerDriver):
    """A driver whose store keeps queues' files."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, queue_files=True)

    @property
    def folder(self):
        return self.path / "storage" / "lqs"

    @property
    def quarantine(self):
        return self.path / "storage" / "quarantine"

    def start(self, *, rebuild: bool = False) -> None:
        self.options["rebuild_internal_files"] = rebuild
        super().start()

    def stop(self) -> None:
        self.store.close(self.manager.snapshot())

    def again(self, *, rebuild: bool = False) -> None:
        self.stop()
        self.start(rebuild=rebuild)

    def says(self, name: str):
        return decode((self.folder / name).read_bytes())

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / name).read_text()
        assert old in text
        (self.folder / name).write_text(text.replace(old, new))

    def info(self, name: str):
        return self.session().call(queue_frames.DescribeQueue(name)).info


@pytest.fixture
def driver(tmp_path):
    return FilesDriver(tmp_path / "data")


def names(driver) -> set[str]:
    return {path.name for path in driver.folder.iterdir()}


def test_a_new_store_has_the_files_of_its_system_queues(driver):
    assert len(names(driver)) == 6
    assert {ADMIN, NOTIFY, ORDER} <= names(driver)
    assert driver.says(ADMIN).description.system
    assert driver.manager.notices() == []


def test_a_queue_has_its_file_before_the_answer_is_released(driver):
    driver.session().create("orders", quota=1000, label="what people order")
    found = driver.says(ORDERS)
    assert found.signed
    assert found.description.path == "\\private$\\orders"
    assert (found.description.quota, found.description.label) == (1000, "what people order")


def test_the_file_follows_the_queue(driver):
    caller = driver.session()
    caller.create("orders", journal=True)
    assert len(names(driver)) == 8
    caller.call(queue_frames.SetQuota("orders", 5, 6))
    assert (
        driver.says(ORDERS).description.quota,
        driver.says(ORDERS).description.journal_quota,
    ) == (
        5,
        6,
    )
    assert driver.says(file_name(17, "orders;journal")).description.quota == 6
    caller.call(queue_frames.DeleteQueue("orders"))
    assert len(names(driver)) == 6
    caller.call(queue_frames.OpenQueue("dray://other:7000/in"))
    assert driver.says(file_name(18, "dray://other:7000/in")).description.kind == "outgoing"


def test_sub_queues_have_files_that_are_gone_with_their_queue(driver):
    caller = driver.session()
    caller.create("orders", journal=True)
    caller.call(queue_frames.OpenQueue("orders;retry"))
    caller.call(queue_frames.OpenQueue("orders;late"))
    assert len(names(driver)) == 10
    assert driver.says(file_name(18, "orders;retry")).description.kind == "sub-queue"
    driver.again()
    assert driver.manager.notices() == []
    driver.session().call(queue_frames.DeleteQueue("orders"))
    assert len(names(driver)) == 6


def test_a_start_finds_everything_as_it_was(driver):
    driver.session().create("orders")
    before = {name: (driver.folder / name).read_bytes() for name in names(driver)}
    driver.again()
    assert driver.manager.notices() == []
    assert {name: (driver.folder / name).read_bytes() for name in names(driver)} == before


def test_edited_properties_are_taken_over_for_good(driver):
    driver.session().create("orders")
    driver.stop()
    driver.edit(ORDERS, "Quota=none\nJQuota=none", "Quota=1 MiB\nJQuota=7")
    driver.edit(ORDERS, "Label=", "Label=new \\x20")
    driver.edit(ORDERS, "Journal=no", "Journal=yes")
    driver.edit(ORDERS, "SystemQueue=no", "SystemQueue=no\nDigest=sha256")
    driver.start()
    (notice,) = driver.manager.notices()
    assert ORDERS in str(notice)
    assert "Quota to 1048576" in str(notice)
    assert driver.manager.files_report.taken_over == [ORDERS]
    for _ in range(2):
        info = driver.info("orders")
        assert (info.quota, info.journal_quota, info.label) == (1 << 20, 7, "new  ")
        assert info.digest == "sha256"
        assert driver.says(ORDERS).signed
        driver.again()
        assert driver.manager.notices() == []
    caller = driver.session()
    caller.send(caller.open("orders"), Message(body=b"x"), transaction=0)
    caller.receive(caller.open("orders"))
    assert len(names(driver)) == 8


def test_an_edit_outlives_a_crash_during_the_start_that_takes_it_over(driver):
    driver.session().create("orders")
    driver.stop()
    driver.edit(ORDERS, "Quota=none", "Quota=77")
    driver.start()
    driver.crash()
    assert driver.info("orders").quota == 77
    assert driver.manager.notices() == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("QueueName=\\private$\\orders", "QueueName=\\private$\\mine"),
        ("Transaction=yes", "Transaction=no"),
        ("Type=private", "Type=outgoing"),
        ("SystemQueue=no", "SystemQueue=yes"),
        ("Quota=none", "Quota=lots"),
        ("Journal=no", "Journal=perhaps"),
        ("[Properties]", "[Proper"),
        ("Label=", "Colour=red\nLabel="),
        ("SystemQueue=no", "SystemQueue=no\nDigest=md5"),
        ("Label=\n", ""),
    ],
)
def test_what_nobody_may_edit_goes_to_quarantine_and_the_file_is_made_anew(driver, old, new):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"kept"))
    driver.stop()
    before = (driver.folder / ORDERS).read_bytes()
    driver.edit(ORDERS, old, new)
    edited = (driver.folder / ORDERS).read_bytes()
    driver.start()
    (notice,) = driver.manager.notices()
    assert f"quarantine/{ORDERS}.1" in str(notice)
    assert driver.manager.files_report.quarantined == [ORDERS]
    assert (driver.quarantine / f"{ORDERS}.1").read_bytes() == edited
    assert (driver.folder / ORDERS).read_bytes() == before
    assert driver.info("orders").message_count == 1


def test_nobody_edits_the_system_s_queues(driver):
    driver.stop()
    driver.edit(ADMIN, "Quota=none", "Quota=5")
    driver.start()
    assert "only queues of users" in str(driver.manager.notices()[0])
    assert driver.says(ADMIN).description.quota is None


def test_a_missing_file_of_a_users_queue_is_made_anew_and_its_messages_stay(driver):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"kept"))
    driver.stop()
    (driver.folder / ORDERS).unlink()
    driver.start()
    (notice,) = driver.manager.notices()
    assert "missing" in str(notice)
    assert ORDERS in names(driver)
    assert driver.info("orders").message_count == 1


@pytest.mark.parametrize(("name", "event"), [(ADMIN, 2020), (NOTIFY, 2051), (ORDER, 2052)])
def test_a_missing_file_of_an_internal_queue_refuses_to_start(driver, name, event):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"kept"))
    driver.stop()
    (driver.folder / name).unlink()
    (driver.folder / ORDERS).write_text("garbage")
    before = names(driver)
    with pytest.raises(StoreCorrupt) as caught:
        driver.start()
    assert (caught.value.event, caught.value.file) == (event, f"lqs/{name}")
    assert str(caught.value).startswith(f"event {event}: lqs/{name} is missing")
    assert names(driver) == before
    driver.start(rebuild=True)
    assert name in names(driver)
    assert driver.info("orders").message_count == 1
    driver.again()


@pytest.mark.parametrize("name", [ORDERS, ADMIN])
def test_a_folder_in_the_place_of_a_file_refuses_to_start_and_stays(driver, name):
    caller = driver.session()
    caller.send(caller.create("orders"), Message(body=b"one"))
    driver.stop()
    (driver.folder / name).unlink()
    (driver.folder / name).mkdir()
    (driver.folder / name / "mine").write_text("keep")
    with pytest.raises(StoreError, match=rf"lqs/{name} is a folder .* move it out of") as caught:
        driver.start()
    assert (type(caught.value), caught.value.code) == (StoreError, StoreError.code)
    (found,) = (each for each in check_store(driver.path).findings if each.severity == "damage")
    assert (found.file, found.what) == (f"lqs/{name}", "it is no file")
    (driver.folder / name).rename(driver.path.parent / "mine")
    driver.start(rebuild=True)
    assert driver.info("orders").message_count == 1
    assert (driver.path.parent / "mine" / "mine").read_text() == "keep"


def test_without_the_folder_it_refuses_to_start(driver):
    driver.stop()
    for path in driver.folder.iterdir():
        path.unlink()
    driver.folder.rmdir()
    with pytest.raises(StoreCorrupt) as caught:
        driver.start()
    assert caught.value.event == 2020


def test_a_file_without_a_queue_goes_to_quarantine(driver):
    driver.stop()
    stray = file_name(99, "\\private$\\gone")
    (driver.folder / stray).write_bytes((driver.folder / ADMIN).read_bytes())
    (driver.folder / "notes.txt").write_text("buy milk")
    driver.start()
    assert len(driver.manager.notices()) == 2
    assert {path.name for path in driver.quarantine.iterdir()} == {f"{stray}.1", "notes.txt.1"}
    driver.stop()
    (driver.folder / "notes.txt").write_text("buy bread")
    driver.start()
    assert (driver.quarantine / "notes.txt.1").read_text() == "buy milk"
    assert (driver.quarantine / "notes.txt.2").read_text() == "buy bread"


def test_a_signed_file_that_is_older_than_the_state_is_brought_up_to_date(driver):
    caller = driver.session()
    caller.create("orders", quota=1)
    old = (driver.folder / ORDERS).read_bytes()
    caller.call(queue_frames.SetQuota("orders", 2, None))
    driver.stop()
    (driver.folder / ORDERS).write_bytes(old)
    driver.start()
    assert driver.manager.files_report.outdated == [ORDERS]
    assert driver.says(ORDERS).description.quota == 2


def test_comments_and_spaces_are_no_difference(driver):
    driver.session().create("orders")
    driver.stop()
    driver.edit(ORDERS, "Journal=no", "# nothing is kept\r\n\r\njournal =  No ")
    driver.start()
    assert driver.manager.notices() == []
    assert driver.says(ORDERS).signed


def test_what_a_crash_left_half_done_is_finished_or_thrown_away(driver):
    driver.session().create("orders")
    driver.stop()
    whole = (driver.folder / ORDERS).read_bytes()
    (driver.folder / f"{ADMIN}.new").write_bytes(b"half")
    (driver.folder / ORDER).rename(driver.folder / f"{ORDER}.new")
    (driver.folder / ORDERS).unlink()
    (driver.folder / f"{ORDERS}.new").write_bytes(whole[:40])
    driver.start()
    assert len(driver.manager.notices()) == 1
    assert names(driver) == {ORDERS} | {name for name in names(driver) if not name.endswith(".new")}
    assert (driver.folder / ORDERS).read_bytes() == whole


def test_a_disk_too_full_for_the_files_of_a_new_store_is_said_so(monkeypatch):
    whole = SimDisk.open

    def full(self, name, *, size=0):
        if name.startswith("lqs/"):
            raise StoreFull(f"there is no room to open {name}", file=name)
        return whole(self, name, size=size)

    monkeypatch.setattr(SimDisk, "open", full)
    store = Store(SimDisk(Random(1)), heap_file_bytes=1 << 16, log_bytes=1 << 18, queue_files=True)
    with pytest.raises(StoreFull, match="no room to open lqs/"):
        QueueManager.load(store, ManagerConfig(manager_id="a" * 32), 0.0)


def test_a_full_disk_keeps_a_file_waiting_and_says_so_but_refuses_no_queue(tmp_path):
    disk = SimDisk(Random(1))
    store = Store(disk, heap_file_bytes=1 << 16, log_bytes=1 << 18, queue_files=True)
    manager = QueueManager.load(store, ManagerConfig(manager_id="a" * 32), 0.0)
    store.sync()
    manager.handle(SessionOpened(1, OWNER), 0.0)

    def call(head):
        answer, *_ = manager.handle(Request(1, Frame(head, 1, memoryview(b""))), 0.0)
        store.sync()
        return answer.head

    call(frames.Hello("client"))
    disk.full_after(0)
    assert isinstance(
        call(queue_frames.CreateQueue("orders", QueueOptions())), queue_frames.QueueState
    )
    assert ORDERS not in disk.names("lqs")
    call(frames.Lease())
    call(frames.Lease())
    (notice,) = manager.notices()
    assert "files of queues wait for room" in str(notice)
    disk.full_after(10_000)
    call(frames.Lease())
    assert ORDERS in disk.names("lqs")


def test_a_crash_at_birth_is_no_loss(driver):
    """Files of a first start that never came to its sync are written by the next one."""
    driver.crash()
    fresh = FilesDriver(driver.path.parent / "other")
    fresh.disk.close()
    for name in (ADMIN, ORDER):
        (fresh.folder / name).unlink()
    for log in (fresh.path / "storage").glob("[QM]*"):
        log.unlink()
    fresh.start()
    assert {ADMIN, NOTIFY, ORDER} <= names(fresh)
    assert fresh.manager.notices() == []


def test_a_store_from_before_there_were_files_gets_them(tmp_path):
    plain = ManagerDriver(tmp_path / "data")
    plain.session().create("orders")
    plain.store.close(plain.manager.snapshot())
    driver = FilesDriver(tmp_path / "data")
    assert ORDERS in names(driver)
    assert driver.manager.notices() == []


def test_a_label_longer_than_a_file_takes_is_refused(driver):
    with pytest.raises(Exception, match="249"):
        driver.session().create("orders", label="x" * 250)
    driver.session().create("orders", label="x" * 249)
    assert driver.says(ORDERS).description.label == "x" * 249


@pytest.mark.parametrize("name", [ORDERS, ADMIN])
def test_a_file_that_may_not_be_opened_is_put_aside_and_written_anew(driver, monkeypatch, name):
    """Of whatever queue: the state has it. The store starts, and is none the worse."""
    driver.session().create("orders", label="kept")
    driver.stop()
    whole = RealDisk.open

    def refusing(self, wanted, *, size=0):
        if wanted == f"lqs/{name}":
            raise no_access(PermissionError(13, "Permission denied"), wanted, "open")
        return whole(self, wanted, size=size)

    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "open", refusing)
        driver.start()
        assert [path.name for path in driver.quarantine.iterdir()] == [f"{name}.1"]
        assert any("Permission denied" in str(notice) for notice in driver.manager.notices())
        driver.session().create("another")
    assert driver.info("orders").label == "kept"


def test_a_file_that_may_not_be_opened_once_it_serves_ends_the_store(driver, monkeypatch):
    driver.leave_unchecked()

    def refusing(self, wanted, *, size=0):
        raise no_access(PermissionError(13, "Permission denied"), wanted, "open")

    with monkeypatch.context() as patch:
        patch.setattr(RealDisk, "open", refusing)
        with pytest.raises(StorePoisoned, match=r"could not open .*: Permission denied"):
            driver.session().create("orders")
    with pytest.raises(StorePoisoned):
        driver.store.sync()


def test_an_edit_that_asks_for_no_journal_makes_none(driver):
    driver.session().create("orders")
    driver.stop()
    before = names(driver)
    driver.edit(ORDERS, "Quota=none\nJQuota=none", "Quota=77\nJQuota=none")
    driver.start()
    assert driver.manager.files_report.taken_over == [ORDERS]
    assert driver.info("orders").quota == 77
    assert names(driver) == before
    assert look_into(driver.manager).state.queues.named("orders").journal is None
