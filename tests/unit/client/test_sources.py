"""Where bodies come from."""

from __future__ import annotations

import asyncio
import ctypes
import io
import os
from array import array
from pathlib import Path

import pytest

from dray.client.files.sources import (
    PIECES_ALIVE,
    FileSource,
    StreamSource,
    has_its_size,
    source_of,
)
from dray.client.files.upload_state import origin_of
from dray.client.formatters import BytesFormatter, TextFormatter
from dray.errors import SourceChanged, SourceUnreadable


def pieces(source, size):
    return [bytes(piece) for piece in source.pieces(size)]


class OnlyRead:
    """A stream without readinto that gives little at a time."""

    def __init__(self, data):
        self._data = io.BytesIO(data)

    def read(self, size):
        return self._data.read(min(size, 3))


class Broken(io.RawIOBase):
    """A stream on a disk that fails."""

    def readinto(self, _):
        raise OSError(5, "Input/output error")


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 20, 35])
def test_every_kind_of_source_is_cut_alike(tmp_path, length):
    data = bytes(range(length))
    path = tmp_path / "payload"
    path.write_bytes(data)
    expected = [data[at : at + 10] for at in range(0, max(1, length), 10)]
    chunks = [data[at : at + 4] for at in range(0, length, 4)]
    for body in (data, bytearray(data), path, io.BytesIO(data), OnlyRead(data), chunks):
        source = source_of(body, None)
        assert pieces(source, 10) == expected
        source.close()


class Filling:
    """An awaited stream that fills memory of its reader, a little at a time."""

    def __init__(self, data):
        self._data = io.BytesIO(data)
        self.rooms = set()

    async def readinto(self, room):
        self.rooms.add(id(room.obj))
        return self._data.readinto(room[:3])


@pytest.mark.parametrize("length", [0, 1, 9, 10, 11, 20, 65])
def test_an_awaited_stream_fills_the_pieces_themselves(length):
    data = bytes(range(length))
    stream = Filling(data)

    async def cut():
        source = source_of(stream, None, awaited=True)
        return [(bytes(piece), id(piece.obj)) async for piece in source.pieces(10)]

    found = asyncio.run(cut())
    assert [piece for piece, _ in found] == [
        data[at : at + 10] for at in range(0, max(1, length), 10)
    ]
    assert {room for _, room in found} <= stream.rooms
    with pytest.raises(TypeError, match=r"send it with dray\.aio"):
        source_of(stream, None)


def test_known_sizes_are_said_before_the_first_piece(tmp_path):
    path = tmp_path / "payload"
    path.write_bytes(b"12345")
    source = source_of(path, None)
    assert (source.size, source_of(b"12", None).size) == (5, 2)
    assert source_of(io.BytesIO(b"12"), None).size == -1
    source.close()


def test_a_piece_stays_as_it_is_while_the_next_few_are_asked_for():
    given = StreamSource(io.BytesIO(bytes(range(8)))).pieces(1)
    alive = [next(given) for _ in range(PIECES_ALIVE)]
    assert [bytes(piece) for piece in alive] == [b"\0", b"\1", b"\2"]


def test_views_of_any_shape_are_sent_as_their_bytes():
    view = memoryview(bytes(range(12)))[::2]
    assert pieces(source_of(view, None), 4) == [bytes([0, 2, 4, 6]), bytes([8, 10])]
    wide = memoryview(bytearray(8)).cast("I")
    assert pieces(source_of(wide, None), 8) == [bytes(8)]


def test_an_array_is_sent_as_its_bytes_and_not_item_by_item():
    assert pieces(source_of(array("H", [1, 2, 3]), None), 4) == [b"\1\0\2\0", b"\3\0"]
    assert pieces(source_of(array("H"), None), 4) == [b""]
    foreign = (ctypes.c_uint16.__ctype_be__ * 2)(1, 2)
    assert pieces(source_of(foreign, None), 4) == [b"\0\1\0\2"]


@pytest.mark.parametrize("body", [["a"], [1, 2], [b"a", None]])
def test_an_iterable_of_something_else_than_bytes_is_refused(body):
    with pytest.raises(TypeError, match=r"gives bytes, not (str|int|NoneType); give a formatter"):
        pieces(source_of(body, None), 10)


class NothingYet(io.RawIOBase):
    """A stream that does not block: None says that there is nothing yet."""

    def readinto(self, _):
        return None


class NothingYetToRead:
    """The same without readinto."""

    def read(self, _):
        return None


@pytest.mark.parametrize("stream", [NothingYet(), NothingYetToRead()])
def test_a_stream_that_has_nothing_yet_has_not_ended(stream):
    with pytest.raises(SourceUnreadable, match="set it to block"):
        pieces(source_of(stream, None), 10)


class TooMuch:
    """A stream that breaks its word."""

    def read(self, size):
        return bytes(size + 1)


def test_a_stream_that_gives_more_than_was_asked_for_is_refused():
    with pytest.raises(ValueError, match="returned 11 bytes when asked for 10"):
        pieces(source_of(TooMuch(), None), 10)


class StreamReader:
    """A stream as asyncio has them."""

    async def read(self, size):
        return bytes(size)


def test_what_is_awaited_is_read_by_the_awaited_face_only():
    with pytest.raises(TypeError, match=r"StreamReader is awaited: send it with dray.aio"):
        source_of(StreamReader(), None)


def test_bytes_do_not_go_through_the_formatter_and_objects_do():
    assert pieces(source_of(b"as they are", TextFormatter()), 100) == [b"as they are"]
    assert pieces(source_of("text", TextFormatter("utf-16-le")), 100) == [
        "text".encode("utf-16-le")
    ]
    assert pieces(source_of([1, 2], BytesFormatter()), 100) == [b"\1\2"]


def test_a_stream_that_breaks_is_unreadable():
    with pytest.raises(SourceUnreadable, match="Input/output error"):
        pieces(source_of(Broken(), None), 10)


def test_a_file_without_a_size_is_read_to_its_end(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    os.write(writer, b"through a pipe")
    source = FileSource(path)
    os.close(writer)
    assert source.size == -1
    assert pieces(source, 5) == [b"throu", b"gh a ", b"pipe"]
    source.close()


def test_a_file_that_grows_is_noticed_even_while_it_grows(tmp_path):
    path = tmp_path / "payload"
    path.write_bytes(b"12345")
    source = FileSource(path)
    path.write_bytes(b"1234567")
    with pytest.raises(SourceChanged, match="it had 5 bytes, now 7"):
        pieces(source, 100)
    source.close()


def test_a_file_that_the_kernel_makes_up_is_read_to_its_end():
    path = Path("/proc/self/status")
    source = FileSource(path)
    assert (source.size, source.is_regular) == (-1, False)
    assert b"".join(pieces(source, 100)).startswith(b"Name:")
    source.close()


@pytest.mark.parametrize("length", [0, 7, 70_000])
def test_a_regular_file_has_its_size_whether_or_not_it_takes_room(tmp_path, length):
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, length)
    source = FileSource(path)
    assert (source.size, source.is_regular) == (length, True)
    source.close()


def test_an_empty_file_that_is_being_written_is_none_that_the_kernel_makes_up(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    before = path.stat()
    path.write_bytes(b"more")
    with path.open("rb") as file:
        assert has_its_size(file.fileno(), before)


def test_where_a_pipe_stands_says_nothing_about_what_comes_out_of_it(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    before, now = (FileSource(path) for _ in range(2))
    os.utime(path, (1, 1))
    later = FileSource(path)
    origins = [origin_of(source, "said", 10, "sha256") for source in (before, now, later)]
    assert len(set(origins)) == 1
    for source in (before, now, later):
        source.close()
    os.close(writer)
