"""Promises about the properties of a file that travel with a large message."""

from __future__ import annotations

import os

import msgspec
import pytest

import dray
from tests.interrupted_sends import interrupt

FILE = dray.FileProperties("scans/2026/knee.dcm", 2500, 1_790_000_000_123_456_789, 0o640)


def test_the_properties_of_a_file_reach_the_receiver(large):
    large.send(b"x" * 2500, file=FILE)
    with large.peek(0) as peeked:
        assert peeked.file == FILE
    with large.receive(0) as message:
        assert message.file == FILE


def test_a_large_message_that_was_no_file_has_none(large):
    large.send(b"x")
    with large.receive(0) as message:
        assert message.file is None


def test_a_name_that_is_no_text_comes_as_it_was(large):
    name = os.fsdecode(b"caf\xe9/\xff")
    large.send(b"x", file=dray.FileProperties(name, 1, 0))
    with large.receive(0) as message:
        assert message.file is not None
        assert os.fsencode(message.file.path) == b"caf\xe9/\xff"


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".", "a\0b", "x" * 256, "a/" * 2048 + "a"],
)
def test_a_path_that_does_not_stay_below_its_folder_is_refused_at_the_sender(large, path):
    with pytest.raises(dray.InvalidArgument, match="relative path"):
        large.send(b"x", file=dray.FileProperties(path, 1, 0))


@pytest.mark.parametrize("field", ["path", "size", "mtime_ns", "mode"])
@pytest.mark.parametrize("value", [None, -(1 << 63), 1 << 63, 1.5, b"x", True, "\ud800/x"])
def test_a_property_of_a_file_that_makes_no_sense_is_refused_at_the_sender(large, field, value):
    file = msgspec.structs.replace(FILE, **{field: value})
    with pytest.raises(dray.InvalidArgument):
        large.send(b"x", file=file)


def test_an_upload_that_is_resumed_with_other_properties_is_refused(large, tmp_path):
    state = tmp_path / "state"
    interrupt(large, state)
    with pytest.raises(dray.Misuse, match="other properties"):
        large.send(b"x" * 2500, resume=state, file=FILE)
