"""Promises about files that are gone on with: `save_to(..., resume=True)`."""

from __future__ import annotations

import random

import pytest

import dray
from dray.client.files.partial_file import PartialFile

BODY = random.Random(6).randbytes(50_500)


class StopError(Exception):
    """What a test interrupts a receive with."""


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out"


@pytest.fixture(autouse=True)
def told_always(monkeypatch):
    monkeypatch.setattr("dray.client.files.progress.INTERVAL_S", 0.0)


def interrupt(large, out, upto=37_000):
    def stop(done, _):
        if done >= upto:
            raise StopError

    with pytest.raises(StopError), large.receive(timeout=10) as message:
        message.save_to(out, progress=stop, resume=True)


def saved(large, out):
    """Save to the end; how much was there when the first fragment was told."""
    with large.receive(timeout=10) as message:
        assert message.save_to(out, resume=True) == out
    return out.read_bytes()


@pytest.fixture
def written(monkeypatch):
    """The lengths of the pieces that are written into files."""
    lengths = []
    write = PartialFile.write

    def counting(file, piece):
        lengths.append(len(piece))
        write(file, piece)

    monkeypatch.setattr(PartialFile, "write", counting)
    return lengths


def test_an_interrupted_file_goes_on_where_it_was(large, out, written):
    large.send(BODY)
    interrupt(large, out)
    partial = out.with_name("out.partial")
    assert partial.read_bytes() == BODY[:37_000]
    assert not out.exists()
    written.clear()
    told = []
    with large.receive(timeout=10) as message:
        message.save_to(out, progress=lambda done, _: told.append(done), resume=True)
    assert out.read_bytes() == BODY
    # What was there was neither fetched nor written again.
    assert sum(written) == len(BODY) - 37_000
    assert told[-1] == len(BODY)
    assert not partial.exists()


@pytest.mark.parametrize("at", [0, 999, 20_500, 36_999])
def test_a_beginning_that_does_not_fit_is_written_anew(large, out, at):
    large.send(BODY)
    interrupt(large, out)
    partial = out.with_name("out.partial")
    spoilt = bytearray(partial.read_bytes())
    spoilt[at] ^= 1
    partial.write_bytes(spoilt)
    assert saved(large, out) == BODY


@pytest.mark.parametrize("left", [b"", b"x", BODY[:999], BODY, BODY + b"more", b"x" * 60_000])
def test_whatever_lies_there_the_file_is_the_message(large, out, left):
    out.with_name("out.partial").write_bytes(left)
    large.send(BODY)
    assert saved(large, out) == BODY


def test_the_file_of_another_message_is_written_anew(large, out):
    large.send(BODY)
    interrupt(large, out)
    with large.receive(timeout=10):
        pass
    large.send(BODY[::-1])
    assert saved(large, out) == BODY[::-1]


@pytest.mark.parametrize("body", [b"", b"x", BODY[:1000]])
def test_short_bodies_too(large, out, body):
    large.send(body)
    assert saved(large, out) == body


def test_without_resume_nothing_is_left(large, out):
    large.send(BODY)

    def stop(done, _):
        raise StopError

    with pytest.raises(StopError), large.receive(timeout=10) as message:
        message.save_to(out, progress=stop)
    assert list(out.parent.iterdir()) == []


def test_compressed_fragments_are_fetched_again(face, large, queue, out):
    packed = face.LargeMessageQueue(queue, fragment_size=1000, compression="zstd")
    packed.send(b"heavy " * 9_000)
    interrupt(large, out)
    assert saved(large, out) == b"heavy " * 9_000


def test_what_does_not_fit_its_digest_is_not_kept(large, out):
    large.send(BODY)
    interrupt(large, out)

    def save_with_another_digest():
        with large.receive(timeout=10) as message:
            awaited = getattr(message, "awaited", None) or message._wrapped
            awaited.digest = bytes(32)
            message.save_to(out, resume=True)

    with pytest.raises(dray.LargeMessageCorrupt):
        save_with_another_digest()
    assert list(out.parent.iterdir()) == []
