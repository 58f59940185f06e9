"""A large message is a file in which one can seek, and ranges of it are read side by side."""

from __future__ import annotations

import io
import os
import random
import threading
import zipfile

import pytest

import dray

FRAGMENT_BYTES = 1000
SIZE = 10_123
BODY = random.Random(5).randbytes(SIZE)


@pytest.fixture
def message(large):
    """One that is received and held."""
    large.send(BODY)
    with large.receive(timeout=10) as message:
        yield message


def test_a_file_reads_from_where_it_stands(message):
    with message.open() as file:
        assert (file.read(10), file.tell()) == (BODY[:10], 10)
        assert file.seek(995) == 995
        assert file.read(2010) == BODY[995:3005]
        assert file.seek(-5, os.SEEK_CUR) == 3000
        assert file.read(3) == BODY[3000:3003]
        assert file.seek(-4, os.SEEK_END) == SIZE - 4
        assert file.read() == BODY[-4:]
        assert file.read(7) == b""
        room = bytearray(50)
        file.seek(SIZE - 20)
        assert file.readinto(room) == 20
        assert room[:20] == BODY[-20:]


def test_random_seeks_give_what_the_original_has(message):
    chance, original = random.Random(11), io.BytesIO(BODY)
    with message.open() as file:
        for _ in range(100):
            whence = chance.choice([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END])
            target = chance.randrange(SIZE + 100)
            origin = {os.SEEK_SET: 0, os.SEEK_CUR: original.tell(), os.SEEK_END: SIZE}[whence]
            assert file.seek(target - origin, whence) == original.seek(target - origin, whence)
            count = chance.choice([0, 1, 17, 999, 1000, 1001, 4000, -1])
            assert file.read(count) == original.read(count)
            assert file.tell() == original.tell()


def test_there_is_nothing_before_the_first_byte(message):
    with message.open() as file:
        file.seek(3)
        for seek in ((-1, os.SEEK_SET), (-4, os.SEEK_CUR), (-SIZE - 1, os.SEEK_END), (0, 9)):
            with pytest.raises(ValueError):  # noqa: PT011 - Python's own files raise no other
                file.seek(*seek)
        assert file.tell() == 3
    with pytest.raises(ValueError, match="from 0 on, not -1"):
        message.read_range(-1, 5)


def test_a_closed_file_is_not_read(message):
    file = message.open()
    file.close()
    assert file.closed
    for call in (file.read, file.tell, lambda: file.seek(0), lambda: file.readinto(bytearray(1))):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert message.body() == BODY


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_the_smallest_bodies_are_files_too(large, size):
    large.send(BODY[:size])
    with large.receive(timeout=10) as message, message.open() as file:
        assert file.read() == BODY[:size]
        assert file.seek(0, os.SEEK_END) == size
        assert message.read_range(0) == BODY[:size]


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 0), (0, 1), (0, 1000), (999, 2), (1000, 1000), (5, 9000), (SIZE - 1, 1), (SIZE - 1, 50),
     (SIZE, 5), (SIZE + 5000, 5), (2500, -1), (0, -1)],
)  # fmt: skip
def test_a_range_is_what_the_original_has_there(message, offset, length):
    expected = BODY[offset:] if length < 0 else BODY[offset : offset + length]
    assert message.read_range(offset, length) == expected


def test_many_readers_read_side_by_side(message):
    failed = []

    def read(seed):
        try:
            chance = random.Random(seed)
            with message.open() as file:
                for _ in range(15):
                    offset, length = chance.randrange(SIZE), chance.randrange(3000)
                    if chance.random() < 0.5:
                        found = message.read_range(offset, length)
                    else:
                        file.seek(offset)
                        found = file.read(length)
                    assert found == BODY[offset : offset + length]
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_threads_that_read_on_take_turns(large):
    """Long enough for each to come while another waits for bytes."""
    body = random.Random(5).randbytes(600_000)
    large.send(body)
    read = []

    def read_on(message):
        while piece := message.read(10_000):
            read.append(piece)

    with large.receive(1) as message:
        threads = [threading.Thread(target=read_on, args=(message,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(read) == sorted(body[at : at + 10_000] for at in range(0, len(body), 10_000))


def test_random_access_and_the_reading_of_the_whole_do_not_meet(message):
    with message.open() as file:
        assert message.read(1500) == BODY[:1500]
        file.seek(9000)
        assert file.read(10) == BODY[9000:9010]
        assert message.read_range(50, 2000) == BODY[50:2050]
        assert message.read() == BODY[1500:]


@pytest.mark.parametrize("ended", ["commit", "abort"])
def test_nothing_is_read_once_the_transaction_has_ended(large, manager, ended):
    large.send(BODY)
    transaction = manager.transaction()
    message = large.receive(timeout=10, transaction=transaction)
    file = message.open()
    # What it has read is in memory, and is not given out all the same.
    file.read(10)
    getattr(transaction, ended)()
    reads = (
        lambda: file.seek(0),
        lambda: file.readinto(bytearray(4)),
        lambda: file.read(4),
        lambda: message.read_range(0, 10),
    )
    for read in reads:
        with pytest.raises(dray.TransactionSequence, match="only while its transaction is open"):
            read()
    file.close()
    message.close()


def test_what_is_peeked_at_is_read_too_until_it_is_taken(large):
    large.send(BODY)
    with large.peek(timeout=10) as message, message.open() as file:
        file.seek(7000)
        assert file.read(2000) == BODY[7000:9000]
        with large.receive(timeout=10):
            pass
        with pytest.raises(dray.MessageNotFound):
            message.read_range(0, 10)


def test_a_file_of_pythons_own_keeps_the_promises_of_one(large, manager):
    large.send(BODY)
    with manager.transaction() as transaction:
        message = large.receive(timeout=10, transaction=transaction)
        file, other = message.open(), message.open()
        if not isinstance(file, io.BufferedReader):
            # The awaited face gives none.
            return
        assert file.readable()
        assert file.seekable()
        assert not file.writable()
        assert file.readinto1(bytearray(4)) == 4
        other.close()
        for call in (other.readable, other.seekable, lambda: other.readinto1(bytearray(4))):
            with pytest.raises(ValueError, match="closed"):
                call()
    with pytest.raises(dray.TransactionSequence):
        file.readinto1(bytearray(4))


def test_python_reads_archives_out_of_it(large, tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        for number in range(20):
            archive.writestr(f"{number}.bin", BODY[: 400 * number])
    large.send(tmp_path / "x.zip")
    with large.receive(timeout=10) as message, message.open() as file:
        # The awaited face gives no file of Python's own; it reads what the other one seeks.
        readable = file if isinstance(file, io.BufferedReader) else io.BytesIO(file.read())
        with zipfile.ZipFile(readable) as archive:
            assert archive.read("13.bin") == BODY[: 400 * 13]
            assert archive.testzip() is None
