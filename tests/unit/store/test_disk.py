"""The contract of a disk, held against the real one and the simulated one."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from dray.errors import StoreCorrupt, StoreError, StoreFull, StoreLocked, StoreMoved, StorePoisoned
from dray.store import reading
from dray.store.disk import FOLDER_NAME
from dray.store.heap.heap import Extent, file_name
from dray.store.reading import HeapReader, ReadOnlyDisk
from dray.store.real_disk import OwnMarks, RealDisk, RealFile
from dray.testing.disk import CrashEffect, SimDisk
from tests.crash.crash_states import do_again


@pytest.fixture(params=["real", "simulated"])
def disk(request, tmp_path):
    disk = RealDisk(tmp_path) if request.param == "real" else SimDisk(Random(1))
    yield disk
    disk.close()


@pytest.fixture
def file(disk):
    file = disk.open("f")
    yield file
    file.close()


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def content(file, length: int, offset: int = 0) -> bytes:
    image = bytearray(length)
    got = file.read_into(memoryview(image), offset)
    return bytes(image[:got])


def test_a_file_that_is_made_without_a_size_is_empty(file):
    assert file.size() == 0


def test_the_name_of_each_folder_that_a_start_makes_is_synced_in_the_folder_above(
    tmp_path, monkeypatch
):
    """Else a power failure takes the whole data directory, with everything acknowledged."""
    synced = []
    monkeypatch.setattr("dray.store.real_disk.sync_folder", synced.append)
    RealDisk(tmp_path / "new" / "data").close()
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700
    assert sorted(synced) == [tmp_path, tmp_path / "new", tmp_path / "new" / "data"]
    synced.clear()
    RealDisk(tmp_path / "new" / "data").close()
    assert synced == [tmp_path / "new" / "data"]


def test_the_folder_that_is_synced_is_the_one_that_was_asked_for(tmp_path, monkeypatch):
    disk, synced = RealDisk(tmp_path), []
    disk.sync_directory("lqs")
    monkeypatch.setattr("dray.store.real_disk.sync_folder", synced.append)
    disk.sync_directory("lqs")
    disk.sync_directory()
    disk.close()
    assert [each.relative_to(tmp_path).parts for each in synced] == [
        (FOLDER_NAME, "lqs"),
        (FOLDER_NAME,),
    ]


def test_a_file_to_read_that_has_descriptor_0_is_closed_once(monkeypatch):
    """A program that closed its standard input opens the next file as descriptor 0."""
    closed = []
    file = RealFile("p00000001.mq", 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", closed.append)
        file.close()
        file.close()
    assert closed == [0]


def test_what_was_written_is_read(file):
    file.write(b"abc", 5)
    file.write(memoryview(b"xy"), 6)
    assert content(file, 100) == bytes(5) + b"axy"
    assert content(file, 2, 6) == b"xy"
    assert content(file, 2, 8) == b""
    assert file.size() == 8


def test_an_opened_file_has_at_least_the_size_asked_for(disk):
    file = disk.open("f", size=1000)
    assert content(file, 2000) == bytes(1000)
    file.write(b"x", 0)
    file.sync()
    again = disk.open("f", size=500)
    assert again.size() == 1000
    assert content(again, 1) == b"x"
    file.close()
    again.close()


def test_to_begin_writing_changes_nothing_that_is_read(file):
    file.write(b"abc", 5)
    file.begin_writing()
    file.write(b"d", 8)
    file.sync()
    assert content(file, 100) == bytes(5) + b"abcd"


def test_truncate_cuts_and_extends(file):
    file.write(b"abcdef", 0)
    file.truncate(2)
    file.truncate(4)
    assert content(file, 10) == b"ab\0\0"


def test_names_come_and_go(disk):
    assert disk.names() == []
    disk.open("b").close()
    disk.open("a").close()
    assert disk.names() == ["a", "b"]
    disk.rename("a", "c")
    disk.remove("b")
    disk.sync_directory()
    assert disk.names() == ["c"]
    assert disk.exists("c")
    assert not disk.exists("b")


def test_names_may_lie_in_a_folder_of_their_own(disk):
    assert disk.names("lqs") == []
    disk.open("lqs/b").close()
    disk.open("lqs/a").close()
    disk.open("f").close()
    assert disk.names() == ["f"]
    assert disk.names("lqs") == ["a", "b"]
    disk.rename("lqs/a", "quarantine/a")
    disk.remove("lqs/b")
    for folder in ("", "lqs", "quarantine"):
        disk.sync_directory(folder)
    assert disk.names("lqs") == []
    assert disk.names("quarantine") == ["a"]
    assert disk.exists("quarantine/a")


def test_the_lock_is_exclusive_until_the_disk_is_closed(disk):
    disk.lock()
    other = disk if isinstance(disk, SimDisk) else RealDisk(disk.path)
    with pytest.raises(StoreLocked):
        other.lock()
    disk.close()
    other.lock()
    other.close()


def test_free_bytes_says_what_is_left(disk):
    assert disk.free_bytes() > 0


# ------------------------------------------------------------------------------- the real one


def test_the_lock_is_free_once_closed_although_a_forked_child_still_has_the_descriptor(tmp_path):
    disk, other = RealDisk(tmp_path), RealDisk(tmp_path)
    disk.lock()
    of_the_child = os.dup(disk.fileno())
    try:
        disk.close()
        other.lock()
    finally:
        os.close(of_the_child)
        other.close()


def test_a_live_process_keeps_others_out_and_is_named(tmp_path):
    program = (
        "import sys; from dray.store.real_disk import RealDisk; disk = RealDisk(sys.argv[1]);"
        "disk.lock(); print('locked', flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"locked\n"
        disk = RealDisk(tmp_path)
        with pytest.raises(StoreLocked, match=f"process {owner.pid}") as raised:
            disk.lock()
        assert raised.value.directory == str(tmp_path)
        assert raised.value.pid == str(owner.pid)
        owner.kill()
    disk.lock()
    disk.close()


def test_the_lock_is_taken_again_in_the_room_that_it_has(tmp_path, monkeypatch):
    """A full disk keeps nobody out of a store that is there; of a new one it is told."""
    path = tmp_path / "storage" / "lock"
    disk = RealDisk(tmp_path)

    def pwrite(descriptor, data, offset):
        if offset + len(data) > os.fstat(descriptor).st_size:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_pwrite(descriptor, data, offset)

    real_pwrite = os.pwrite
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", pwrite)
        with pytest.raises(StoreFull, match="there is no room to write lock"):
            disk.lock()
    disk.lock()
    disk.close()
    size = path.stat().st_size
    monkeypatch.setattr(os, "pwrite", pwrite)
    monkeypatch.setattr(os, "getpid", lambda: 7)
    disk.lock()
    disk.close()
    assert (path.read_text().split(), path.stat().st_size) == (["7"], size)


def test_a_data_directory_that_cannot_be_locked_is_no_failed_disk(tmp_path):
    """Another user's, or one that is read-only; nothing of the store was touched."""
    (tmp_path / "storage" / "lock").mkdir(parents=True)
    with pytest.raises(
        StoreError, match="cannot be used as data directory: storage/lock: Is a"
    ) as e:
        RealDisk(tmp_path).lock()
    assert e.value.code == StoreError.code


@pytest.mark.parametrize("folder", ["storage", "storage/lqs"])
def test_a_folder_in_which_no_file_can_be_made_keeps_a_store_from_starting(
    tmp_path, monkeypatch, folder
):
    """The first request for a queue would poison the store."""
    disk = RealDisk(tmp_path)
    (tmp_path / "storage" / "lqs").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, *_, **__: path != tmp_path / folder)
        with pytest.raises(StoreError, match=f"data directory: {folder}: Permission denied"):
            disk.lock()
    disk.lock()
    disk.close()


def test_a_data_directory_that_cannot_be_made_is_one_clear_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be used as data directory: storage: Not a dir"):
        RealDisk(tmp_path / "file")
    with pytest.raises(StoreError, match="none cannot be used as data directory: No such file"):
        RealDisk("/proc/none")


def test_the_system_is_told_to_begin_writing_and_not_waited_for(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr("dray.store.real_disk._sync_file_range", lambda *call: told.append(call))
    file = RealDisk(tmp_path).open("f", size=10)
    file.begin_writing()
    write_and_do_not_wait = 2
    assert told == [(file.descriptor(), 0, 0, write_and_do_not_wait)]
    file.close()


def test_where_the_system_cannot_begin_writing_nothing_is_missed(tmp_path, monkeypatch):
    monkeypatch.setattr("dray.store.real_disk._sync_file_range", None)
    file = RealDisk(tmp_path).open("f", size=10)
    file.write(b"x", 0)
    file.begin_writing()
    file.sync()
    assert content(file, 1) == b"x"
    file.close()


def test_no_room_to_preallocate_is_store_full_and_leaves_no_file(tmp_path):
    disk = RealDisk(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
    try:
        with pytest.raises(StoreFull):
            disk.open("new", size=2 << 20)
        old = disk.open("old", size=1 << 20)
        with pytest.raises(StoreFull):
            disk.open("old", size=2 << 20)
        with pytest.raises(StoreFull):
            old.write(b"x", 1 << 20)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert disk.names() == ["old"]
    old.close()


def test_a_file_that_found_too_little_room_gives_back_what_it_had_taken(tmp_path, monkeypatch):
    disk = RealDisk(tmp_path)
    old = disk.open("old", size=1000)
    old.write(b"content", 993)

    def takes_all_there_is(descriptor, start, length):
        os.truncate(descriptor, start + length // 2)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", takes_all_there_is)
    with pytest.raises(StoreFull):
        disk.open("old", size=1 << 20)
    assert old.size() == 1000
    assert content(old, 1000).endswith(b"content")
    old.close()


@pytest.mark.parametrize(
    ("act", "number", "error"),
    [
        ("pwrite", errno.EIO, StorePoisoned),
        ("pwrite", errno.ENOSPC, StoreFull),
        ("pwrite", errno.EDQUOT, StoreFull),
        ("fdatasync", errno.EIO, StorePoisoned),
        ("fdatasync", errno.ENOSPC, StorePoisoned),
        ("ftruncate", errno.EIO, StorePoisoned),
        ("preadv", errno.EIO, StoreCorrupt),
        ("pwrite", errno.EACCES, StorePoisoned),
        ("fdatasync", errno.EROFS, StorePoisoned),
    ],
)
def test_errors_of_the_system_are_translated_once(tmp_path, monkeypatch, *, act, number, error):
    file = RealDisk(tmp_path).open("f", size=10)

    def fails(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, act, fails)
    calls = {
        "pwrite": lambda: file.write(b"x", 0),
        "fdatasync": file.sync,
        "ftruncate": lambda: file.truncate(0),
        "preadv": lambda: file.read_into(memoryview(bytearray(1)), 0),
    }
    with pytest.raises(error) as raised:
        calls[act]()
    assert isinstance(raised.value.__cause__, OSError)
    _, said, remedy = str(raised.value).partition("; ")
    assert said, "a sentence ends with what to do"
    assert any(word in remedy for word in ("free some space", "check the disk"))
    file.close()


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS])
@pytest.mark.parametrize(
    ("function", "act", "call"),
    [
        ("open", "open f", lambda disk: disk.open("f")),
        ("scandir", "list storage", RealDisk.names),
        ("stat", "look for f", lambda disk: disk.exists("f")),
    ],
)
def test_what_this_user_may_not_use_is_named_and_nothing_failed(
    tmp_path, monkeypatch, *, function, act, call, number
):
    disk = RealDisk(tmp_path)
    disk.open("f").close()

    def refused(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, function, refused)
    with pytest.raises(StoreError) as raised:
        call(disk)
    assert type(raised.value) is StoreError
    reason = os.strerror(number)
    assert str(raised.value).startswith(f"could not {act}: {reason}; let the user who runs this")
    assert raised.value.file == act.split()[-1]


@pytest.mark.parametrize(
    ("function", "look"),
    [
        ("open", ReadOnlyDisk.lock),
        ("open", lambda disk: disk.open("f")),
        ("stat", lambda disk: disk.exists("f")),
        ("scandir", ReadOnlyDisk.names),
        ("scandir", ReadOnlyDisk.not_files),
    ],
)
def test_who_only_looks_and_may_not_is_told_so_and_not_of_damage(
    tmp_path, monkeypatch, *, function, look
):
    RealDisk(tmp_path).open("f").close()
    disk = ReadOnlyDisk(tmp_path)

    def refused(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, function, refused)
    with pytest.raises(
        StoreError, match=r"^could not .*: Permission denied; let the user"
    ) as raised:
        look(disk)
    assert type(raised.value) is StoreError


@pytest.mark.parametrize("look", [ReadOnlyDisk.lock, lambda disk: disk.open("f")])
def test_without_a_descriptor_who_only_looks_is_told_so_and_not_of_damage(
    tmp_path, monkeypatch, look
):
    RealDisk(tmp_path).open("f").close()
    disk = ReadOnlyDisk(tmp_path)

    def refused(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(StoreFull, match=r"Too many open files; raise `ulimit -n`$"):
        look(disk)


def test_a_folder_opened_for_reading_names_a_file_that_cannot_be_opened(tmp_path):
    RealDisk(tmp_path).open("g").close()
    disk = ReadOnlyDisk(tmp_path)
    with pytest.raises(StoreCorrupt, match=r"^f cannot be opened: No such file") as raised:
        disk.open("f")
    assert raised.value.file == "f"
    assert not disk.had_store(), "there is no manifest"
    (tmp_path / "manifest.json").write_text("{")
    assert not disk.had_store(), "a manifest that cannot be read tells nothing"


def test_a_record_that_its_heap_file_does_not_hold_to_its_end_is_refused(tmp_path):
    disk = RealDisk(tmp_path)
    file = disk.open(file_name(1))
    file.write(b"abcdefgh", 0)
    file.close()
    heap = HeapReader(ReadOnlyDisk(tmp_path))
    assert heap.read(Extent(1, 2, 6)) == b"cdefgh"
    assert heap.read(Extent(1, 2, 6), offset=2, length=3) == b"efg"
    assert heap.read(Extent(1, 2, 4), offset=2) == b"ef"
    assert heap.read(Extent(1, 2, 4), offset=2, length=3) == b"ef"
    with pytest.raises(StoreCorrupt):
        heap.read(Extent(1, 2, 7))
    with pytest.raises(StoreCorrupt):
        heap.read(Extent(2, 0, 1))
    heap.close()


def test_bytes_that_are_only_in_the_log_are_read_where_the_next_start_copies_them(tmp_path):
    disk = RealDisk(tmp_path)
    file = disk.open(file_name(1))
    file.write(b"abcdefgh", 0)
    file.close()
    heap = HeapReader(ReadOnlyDisk(tmp_path))
    heap.lay_over(Extent(1, 2, 3), b"XYZ")
    heap.lay_over(Extent(1, 6, 4), b"1234")
    heap.lay_over(Extent(2, 0, 8), b"--------")
    for start in range(9):
        for length in range(9 - start):
            read = heap.read(Extent(1, start, length))
            assert read == b"abXYZf12"[start : start + length]
    heap.close()


def test_a_folder_that_a_manager_has_cannot_be_read_and_one_that_is_read_keeps_managers_out(
    tmp_path,
):
    disk, reader = RealDisk(tmp_path), ReadOnlyDisk(tmp_path)
    for first, second in ((disk, reader), (reader, disk)):
        first.lock()
        before = open_descriptors()
        with pytest.raises(StoreLocked):
            second.lock()
        assert open_descriptors() == before
        first.close()
    reader.lock()
    reader.close()


def test_a_folder_without_a_store_is_no_data_directory(tmp_path):
    with pytest.raises(StoreError, match="is not a data directory") as refused:
        ReadOnlyDisk(tmp_path)
    assert refused.value.directory == str(tmp_path)


def test_the_size_of_a_disk_is_that_of_its_file_system_locked_or_not(tmp_path):
    disk = RealDisk(tmp_path)
    status = os.statvfs(tmp_path)
    assert disk.size_bytes() == status.f_blocks * status.f_frsize
    disk.lock()
    assert disk.size_bytes() == status.f_blocks * status.f_frsize
    disk.close()


def test_a_store_that_was_moved_while_its_next_manager_waited_is_refused_and_left(tmp_path):
    disk = RealDisk(tmp_path)
    moved = tmp_path / "moved.json"
    moved.write_text('{"to": "elsewhere", "move": "1", "when": "today"}')
    before = open_descriptors()
    with pytest.raises(StoreMoved, match="was moved to elsewhere"):
        disk.lock()
    assert open_descriptors() == before
    moved.unlink()
    disk.lock()
    disk.close()


def test_a_reader_of_many_heap_files_keeps_a_bounded_number_open(tmp_path, monkeypatch):
    disk = RealDisk(tmp_path)
    for number in range(1, 5):
        file = disk.open(file_name(number))
        file.write(b"%d" % number, 0)
        file.close()
    monkeypatch.setattr(reading, "_DESCRIPTORS_MAX", 2)
    before = open_descriptors()
    heap = HeapReader(ReadOnlyDisk(tmp_path))
    for number in (1, 2, 3, 4, 1, 2):
        assert heap.read(Extent(number, 0, 1)) == b"%d" % number
        assert open_descriptors() <= before + 2
    assert open_descriptors() == before + 2, "they are not opened for each read"
    heap.close()
    assert open_descriptors() == before


def test_a_disk_whose_free_bytes_cannot_be_asked_for_is_not_trusted_with_more(
    tmp_path, monkeypatch
):
    disk = RealDisk(tmp_path)

    def fails(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "statvfs", fails)
    with pytest.raises(StorePoisoned, match="could not measure storage: Input/output error"):
        disk.free_bytes()


def test_a_write_taken_in_bites_is_written_whole(tmp_path, monkeypatch):
    file = RealDisk(tmp_path).open("f")
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: whole(fd, data[:3], offset))
    file.write(b"abcdefgh", 2)
    assert content(file, 20) == b"\0\0abcdefgh"
    file.close()


def test_a_real_file_has_a_descriptor_until_it_is_closed(tmp_path):
    file = RealDisk(tmp_path).open("f", size=3)
    assert os.fstat(file.descriptor()).st_size == 3
    file.close()
    file.close()
    assert file.descriptor() == -1


def test_a_file_is_opened_to_read_for_who_asks_and_nothing_is_told(tmp_path):
    told = Told()
    disk = RealDisk(tmp_path, changes=told)
    file = disk.open("f")
    file.write(b"abc", 0)
    told.all.clear()
    descriptor = disk.open_to_read("f")
    file.close()
    assert told.all == ["=f"]
    assert os.pread(descriptor, 9, 0) == b"abc"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.pwrite(descriptor, b"x", 0)
    os.close(descriptor)
    assert told.all == ["=f"]


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOENT, StoreCorrupt),
        (errno.EIO, StoreCorrupt),
        (errno.EMFILE, StoreFull),
        (errno.ENFILE, StoreFull),
    ],
)
def test_a_file_that_cannot_be_opened_to_read_is_named(tmp_path, monkeypatch, number, error):
    disk = RealDisk(tmp_path)

    def fails(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", fails)
    with pytest.raises(error, match="p0000001") as raised:
        disk.open_to_read("p0000001.mq")
    assert raised.value.file == "p0000001.mq"


def test_an_announcement_counts_for_one_change_of_its_kind_and_name():
    marks = OwnMarks()
    for _ in range(2):
        marks.announce("comes", "a")
    assert not marks.take("goes", "a")
    assert not marks.take("comes", "b")
    assert [marks.take("comes", "a") for _ in range(3)] == [True, True, False]


class Told(OwnMarks):
    def __init__(self) -> None:
        self.all: list[str] = []

    def announce(self, act: str, name: str) -> None:
        self.all.append({"comes": "+", "goes": "-", "closes": "="}[act] + name)


def test_it_tells_what_it_is_about_to_do_to_names(tmp_path):
    told = Told()
    disk = RealDisk(tmp_path, changes=told)
    file = disk.open("lqs/f")
    disk.open("lqs/f").close()
    file.close()
    file.close()
    disk.rename("lqs/f", "g")
    disk.remove("g")
    assert told.all == ["+lqs", "+lqs/f", "=lqs/f", "=lqs/f", "-lqs/f", "+g", "-g"]


# -------------------------------------------------------------------------- the simulated one


def test_a_crash_loses_what_was_not_synced():
    disk = SimDisk(Random(1))
    file = disk.open("f")
    file.write(b"durable", 0)
    file.sync()
    disk.sync_directory()
    file.write(b"lost", 0)
    file.truncate(100)
    disk.open("gone").sync()
    after = disk.crash(CrashEffect.LOST)
    assert after.names() == ["f"]
    assert after.image("f") == b"durable"


def test_a_crash_may_keep_everything():
    disk = SimDisk(Random(1))
    disk.open("old").write(b"kept", 2)
    disk.rename("old", "f")
    disk.open("x")
    disk.remove("x")
    after = disk.crash(CrashEffect.KEPT)
    assert after.names() == ["f"]
    assert after.image("f") == b"\0\0kept"


def test_a_kill_keeps_everything_but_makes_nothing_durable():
    disk = SimDisk(Random(1))
    file = disk.open("f")
    file.write(b"a", 0)
    file.sync()
    disk.sync_directory()
    file.write(b"b", 0)
    disk.open("new")
    disk.open("old")
    disk.remove("old")
    after = disk.kill()
    assert after.image("f") == b"b"
    assert after.names() == ["f", "new"]
    last = after.crash(CrashEffect.LOST)
    assert last.names() == ["f"]
    assert last.image("f") == b"a"


def test_a_dead_disk_answers_nothing():
    disk = SimDisk(Random(1))
    file = disk.open("f")
    disk.crash()
    for act in (disk.lock, disk.names, file.sync, file.size, lambda: file.write(b"x", 0)):
        with pytest.raises(StorePoisoned):
            act()


def test_writes_tear_by_sectors_or_bytes_and_never_beyond_themselves():
    found = set()
    for seed in range(200):
        disk = SimDisk(Random(seed))
        file = disk.open("f", size=2048)
        file.write(b"a" * 2048, 0)
        file.sync()
        disk.sync_directory()
        file.write(b"b" * 1000, 100)
        image = disk.crash().image("f")
        assert image[:100] == b"a" * 100
        assert image[1100:] == b"a" * 948
        found.add(image)
    assert len(found) > 20


def test_faults_come_when_they_were_asked_for():
    disk = SimDisk(Random(1))
    file = disk.open("f", size=4)
    disk.fail_write(2)
    file.write(b"x", 0)
    with pytest.raises(StorePoisoned):
        file.write(b"yyyy", 0)
    disk.fail_sync()
    with pytest.raises(StorePoisoned):
        file.sync()
    file.sync()
    disk.full_after(10)
    disk.open("g", size=10)
    with pytest.raises(StoreFull):
        disk.open("h", size=1)
    with pytest.raises(StoreFull):
        file.write(b"12345", 0)
    assert disk.names() == ["f", "g"]
    with pytest.raises(NotImplementedError):
        file.descriptor()
    with pytest.raises(NotImplementedError):
        disk.open_to_read("f")


def test_damage_is_durable():
    disk = SimDisk(Random(1))
    file = disk.open("f", size=4)
    disk.open("g")
    file.sync()
    disk.sync_directory()
    disk.damage("f", 1, b"!")
    assert disk.after_crash(CrashEffect.LOST).image("f") == b"\0!\0\0"
    disk.cut_off("f", 2)
    disk.lose("g")
    after = disk.crash(CrashEffect.LOST)
    assert after.names() == ["f"]
    assert after.image("f") == b"\0!"


def test_names_of_a_folder_are_durable_after_its_own_sync():
    disk = SimDisk(Random(1))
    disk.open("lqs/a")
    disk.open("f")
    disk.sync_directory("lqs")
    assert disk.after_crash(CrashEffect.LOST).names("lqs") == ["a"]
    assert disk.after_crash(CrashEffect.LOST).names() == []
    disk.rename("lqs/a", "quarantine/a")
    disk.sync_directory("quarantine")
    after = disk.crash(CrashEffect.LOST)
    assert (after.names("lqs"), after.names("quarantine")) == ([], ["a"])


def test_a_recording_can_be_done_again():
    operations = []
    disk = SimDisk(Random(1)).recorded(operations)
    file = disk.open("f", size=4)
    file.write(b"ab", 1)
    file.sync()
    disk.open("g")
    disk.rename("g", "h")
    disk.open("i")
    disk.remove("i")
    disk.open("lqs/k")
    disk.sync_directory("lqs")
    disk.sync_directory()
    again = SimDisk(Random(1))
    for operation in operations:
        do_again(operation, again)
    after = again.crash(CrashEffect.LOST)
    assert after.names() == ["f", "h"]
    assert after.names("lqs") == ["k"]
    assert after.image("f") == b"\0ab\0"
