"""Large messages out of files and into files: alike through every door, lent or not."""

from __future__ import annotations

import os
import random
import threading
from functools import partial
from pathlib import Path

import pytest

import dray
from dray.client.awaited import upload
from dray.client.files.partial_file import PartialFile
from dray.daemon.config import ServeOptions
from dray.daemon.embedded import EmbeddedDaemon
from dray.daemon.files import copying

FRAGMENT_BYTES = 300_000
SIZE = 1_700_001


def some_bytes(size, seed=1):
    return random.Random(seed).randbytes(size)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(some_bytes(SIZE))
    return path


@pytest.fixture(params=["sha256", "blake3"])
def digest(request):
    """One is taken by a thread of its own, the other while the file is read back."""
    return request.param


@pytest.fixture
def files(face, manager, queue, digest):
    """A queue for large messages whose fragments are worth lending."""
    manager.create_queue("statusq", exist_ok=True)
    return face.LargeMessageQueue(queue, fragment_size=FRAGMENT_BYTES, digest=digest)


def save(files, target, **options):
    with files.receive(timeout=10) as message:
        return message.save_to(target, **options)


@pytest.mark.parametrize(
    "size", [FRAGMENT_BYTES - 1, FRAGMENT_BYTES, FRAGMENT_BYTES + 1, SIZE, 5 * FRAGMENT_BYTES]
)
def test_a_file_comes_out_as_it_went_in(files, tmp_path, size):
    (tmp_path / "in").write_bytes(some_bytes(size))
    files.send(tmp_path / "in", label="in")
    told = []
    save(files, tmp_path / "out", progress=lambda done, total: told.append((done, total)))
    assert (tmp_path / "out").read_bytes() == some_bytes(size)
    assert told[-1] == (size, size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


@pytest.fixture
def packing(face, manager, queue, digest):
    """The same, compressing what it sends."""
    manager.create_queue("statusq", exist_ok=True)
    return face.LargeMessageQueue(
        queue, fragment_size=2 * FRAGMENT_BYTES, compression="zstd", digest=digest
    )


@pytest.mark.parametrize("noise", [0, FRAGMENT_BYTES, 2 * FRAGMENT_BYTES])
def test_compressed_fragments_come_out_unpacked(packing, tmp_path, noise):
    """So much of each does not compress; packed, those in the middle are worth lending."""
    body = 3 * (some_bytes(noise) + bytes(2 * FRAGMENT_BYTES - noise))
    (tmp_path / "in").write_bytes(body)
    packing.send(tmp_path / "in")
    assert save(packing, tmp_path / "out").read_bytes() == body


def test_a_target_that_was_longer_keeps_nothing_of_what_it_had(files, source, tmp_path):
    for name in ("out", "out.partial"):
        (tmp_path / name).write_bytes(b"x" * (SIZE + 100))
    files.send(source)
    assert save(files, tmp_path / "out").read_bytes() == some_bytes(SIZE)


@pytest.mark.parametrize("sync", [True, False])
def test_a_file_is_synced_before_it_is_there_unless_its_owner_does_so(
    files, source, monkeypatch, sync
):
    """The queue manager may be in this process: what it syncs is not counted."""
    out, synced, fsync = source.with_name("out"), [], os.fsync

    def seen(descriptor):
        fsync(descriptor)
        synced.append((os.fstat(descriptor).st_ino, out.exists()))

    files.send(source)
    monkeypatch.setattr(os, "fsync", seen)
    assert save(files, out, sync=sync).read_bytes() == some_bytes(SIZE)
    assert ((out.stat().st_ino, False) in synced) == sync
    assert ((out.parent.stat().st_ino, True) in synced) == sync


def test_what_is_peeked_at_is_saved_too(files, source, tmp_path, queue):
    files.send(source)
    before = queue.info().message_count
    with files.peek(timeout=10) as message:
        message.save_to(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == some_bytes(SIZE)
    assert queue.info().message_count == before


def test_a_file_that_is_cut_short_while_it_is_sent_is_not_sent(files, source, tmp_path, queue):
    def cut(done, _total):
        if done:
            os.truncate(source, FRAGMENT_BYTES + 7)

    with pytest.raises(dray.SourceChanged, match="changed") as caught:
        files.send(source, progress=cut)
    assert caught.value.path == str(source)
    assert queue.info().message_count == 0
    # Nothing of it is left in the way of the next.
    source.write_bytes(some_bytes(SIZE))
    files.send(source)
    assert save(files, tmp_path / "out").read_bytes() == some_bytes(SIZE)


def test_many_threads_share_a_connection_for_their_files(face, manager, make_queue, tmp_path):
    manager.create_queue("statusq", exist_ok=True)
    queues = [make_queue() for _ in range(4)]
    failed = []

    def there_and_back(number):
        try:
            large = face.LargeMessageQueue(queues[number], fragment_size=FRAGMENT_BYTES)
            path = tmp_path / f"in-{number}"
            path.write_bytes(some_bytes(SIZE, number))
            large.send(path)
            save(large, tmp_path / f"out-{number}")
        except Exception as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=there_and_back, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    for number in range(4):
        assert (tmp_path / f"out-{number}").read_bytes() == some_bytes(SIZE, number)


# --------------------------------------------------------------------- with a manager of its own


@pytest.fixture
def daemon(tmp_path):
    options = ServeOptions(data="", listen="127.0.0.1:0", open=True, socket=str(tmp_path / "s"))
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    yield daemon
    daemon.stop()


@pytest.fixture
def open_with(face, daemon):
    """Opens a large queue behind the Unix socket of that manager."""
    (url,) = [address for address in daemon.addresses if "unix" in address]
    with face.connect(url) as manager:
        manager.create_queue("statusq")
        queue = manager.create_queue("q")
        yield partial(face.LargeMessageQueue, queue, fragment_size=FRAGMENT_BYTES)


@pytest.fixture
def opened(open_with):
    return open_with()


def heap_file_with(folder: Path, wanted: bytes) -> tuple[Path, int]:
    for path in sorted((folder / "data" / "storage").glob("p*.mq")):
        at = path.read_bytes().find(wanted)
        if at >= 0:
            return path, at
    raise AssertionError("no heap file has it")


@pytest.mark.parametrize(
    ("fragment", "sync", "where"),
    [(1, True, "body"), (4, False, "body"), (6, True, "body"), (2, True, 0), (3, True, 40)],
)
def test_bytes_that_rotted_in_the_store_are_found_in_the_file(
    open_with, source, digest, *, fragment, sync, where
):
    """In the body, in the mark by which a record begins, in the fragment's number."""
    opened = open_with(digest=digest)
    opened.send(source)
    body, folder = some_bytes(SIZE), source.parent
    path, at = heap_file_with(folder, body[(fragment - 1) * FRAGMENT_BYTES :][:64])
    rotten = at + 50 if where == "body" else path.read_bytes().rfind(b"DMSG", 0, at) + where
    with path.open("r+b") as file:
        file.seek(rotten)
        (was,) = file.read(1)
        file.seek(rotten)
        file.write(bytes([was ^ 1]))
    with pytest.raises(dray.LargeMessageHole) as caught:
        save(opened, folder / "out", sync=sync)
    assert caught.value.missing == [[fragment, fragment]]
    assert not list(folder.glob("out*"))


@pytest.fixture
def moved(monkeypatch):
    """What is read from lent files and copied into them: a name for each."""
    moved = []
    for name in ("_fetch", "_copy"):
        function = getattr(copying, name)

        def seen(*arguments, name=name, function=function):
            moved.append(name)
            return function(*arguments)

        monkeypatch.setattr(copying, name, seen)
    return moved


def test_bytes_go_by_the_file_and_not_by_the_socket(opened, source, tmp_path, moved):
    """The other tests would hold without the fast path too: this one says that it is taken."""
    opened.send(source)
    save(opened, tmp_path / "out")
    # The last fragment of 200,001 bytes is not worth lending when it is sent.
    assert moved.count("_fetch") == SIZE // FRAGMENT_BYTES
    assert moved.count("_copy") == SIZE // FRAGMENT_BYTES + 1


def test_a_quick_digest_is_taken_of_small_pieces_as_they_are_read_back(
    open_with, tmp_path, monkeypatch
):
    read, read_back = [], PartialFile.read_back

    def seen(file, view, offset):
        read.append((offset, len(view)))
        read_back(file, view, offset)

    monkeypatch.setattr(PartialFile, "read_back", seen)
    quarter = 256 << 10
    first = 2 * quarter + 5
    opened = open_with(digest="blake3", fragment_size=first)
    body = some_bytes(first + quarter)
    (tmp_path / "in").write_bytes(body)
    opened.send(tmp_path / "in")
    assert save(opened, tmp_path / "out").read_bytes() == body
    assert read == [(0, quarter), (quarter, quarter), (2 * quarter, 5), (first, quarter)]


class StopError(Exception):
    """What a test interrupts a send or a receive with."""


def stop_behind(bytes_done):
    def stop(done, _total):
        if done >= bytes_done:
            raise StopError

    return stop


@pytest.fixture
def often(monkeypatch):
    """Progress is told, and an upload marked, with each fragment."""
    monkeypatch.setattr("dray.client.files.progress.INTERVAL_S", 0.0)
    monkeypatch.setattr(upload, "UPLOAD_MARK_BYTES", FRAGMENT_BYTES)


@pytest.mark.usefixtures("often")
def test_a_send_that_is_gone_on_with_is_lent_too(opened, source, tmp_path, moved):
    state = tmp_path / "state"
    with pytest.raises(StopError):
        opened.send(source, resume=state, progress=stop_behind(3 * FRAGMENT_BYTES))
    (unfinished,) = opened.unfinished()
    assert unfinished.bytes_done == 3 * FRAGMENT_BYTES
    assert moved.count("_fetch") == 3
    opened.send(source, resume=state)
    assert moved.count("_fetch") == SIZE // FRAGMENT_BYTES
    assert save(opened, tmp_path / "out").read_bytes() == some_bytes(SIZE)


@pytest.mark.usefixtures("often")
def test_a_file_that_is_gone_on_with_is_lent_too(opened, source, tmp_path, moved):
    # More than are asked for ahead: what was asked for when it is interrupted may be there too.
    body = some_bytes(12 * FRAGMENT_BYTES)
    source.write_bytes(body)
    opened.send(source)
    with pytest.raises(StopError):
        save(opened, tmp_path / "out", resume=True, progress=stop_behind(2 * FRAGMENT_BYTES))
    begun = (tmp_path / "out.partial").read_bytes()
    assert begun[: 2 * FRAGMENT_BYTES] == body[: 2 * FRAGMENT_BYTES]
    before = len(moved)
    assert save(opened, tmp_path / "out", resume=True).read_bytes() == body
    assert 1 <= len(moved) - before <= 12 - 2


def test_what_does_not_shrink_is_lent_although_it_might_have(open_with, tmp_path, moved):
    opened = open_with(compression="zstd")
    (tmp_path / "in").write_bytes(bytes(2 * FRAGMENT_BYTES) + some_bytes(3 * FRAGMENT_BYTES))
    opened.send(tmp_path / "in")
    assert moved.count("_fetch") == 3
    body = save(opened, tmp_path / "out").read_bytes()
    assert body == (tmp_path / "in").read_bytes()


def test_a_source_that_the_manager_reads_otherwise_is_not_sent(
    opened, source, tmp_path, monkeypatch
):
    read = copying.preadv

    def preadv(descriptor, buffers, offset):
        count = read(descriptor, buffers, offset)
        if offset == 2 * FRAGMENT_BYTES:
            buffers[0][1000] ^= 1
        return count

    monkeypatch.setattr(copying, "preadv", preadv)
    with pytest.raises(dray.SourceChanged, match="changed while Dray sent it") as caught:
        opened.send(source)
    assert caught.value.path == str(source)
    monkeypatch.undo()
    opened.send(source)
    assert save(opened, tmp_path / "out").read_bytes() == some_bytes(SIZE)


def test_a_full_disk_under_the_target_keeps_the_message(opened, source, tmp_path, monkeypatch):
    def copy_file_range(*_):
        raise OSError(28, "No space left on device")

    opened.send(source)
    monkeypatch.setattr(copying, "copy_file_range", copy_file_range)
    with pytest.raises(dray.TargetUnwritable, match="out cannot be written: No space left"):
        save(opened, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))
    monkeypatch.undo()
    assert save(opened, tmp_path / "out").read_bytes() == some_bytes(SIZE)
