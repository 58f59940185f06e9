"""Payload files: names that no label can bend, and files that are whole or not there."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import LargeMessageCorrupt, StoreError, StoreFull
from dray.spark.landing.payload import Expected, Placement, payload_name, remove_partials

ID = "0123456789abcdef" * 2 + "\\42"
BODY = b"payload" * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.mark.parametrize(
    ("label", "ending"),
    [
        ("report.pdf", "-42-report.pdf"),
        ("", "-42"),
        ("../../etc/passwd", "-42-passwd"),
        ("/absolute/path.jar", "-42-path.jar"),
        ("C:\\windows\\x.dll", "-42-x.dll"),
        ("..", "-42"),
        (".hidden", "-42-hidden"),
        ("a\x00b\nc", "-42-a_b_c"),
        ("größe.txt", "-42-größe.txt"),
        ("trailing/", "-42"),
    ],
)
def test_a_label_becomes_a_readable_and_harmless_ending(label, ending):
    assert payload_name(ID, label) == "0123456789abcdef" * 2 + ending


def test_a_long_label_is_cut_and_keeps_its_suffix():
    name = payload_name(ID, "ö" * 240 + ".parquet")

    assert len(name.encode()) <= 200
    assert name.endswith("ö.parquet")


@given(st.text(max_size=300), st.text(max_size=60), st.integers(0, 1 << 62))
def test_every_name_is_one_safe_component_and_nobody_elses(label, odd_id, number):
    good = f"{'a' * 32}\\{number}"
    other = f"{'a' * 32}\\{number + 1}"
    for sequence_id in (good, odd_id):
        name = payload_name(sequence_id, label)
        assert name == payload_name(sequence_id, label)
        assert Path(name).name == name
        assert not name.startswith(".")
        assert "\x00" not in name
        assert len(name.encode(errors="surrogatepass")) <= 200
    assert len({payload_name(good, label), payload_name(other, label)}) == 2


def placement(path, **given):
    return Placement(
        path, Expected(**({"size": len(BODY), "digest": DIGEST, "kind": "sha256"} | given))
    )


def pull(target):
    target.write(memoryview(BODY)[:10])
    target.write(BODY[10:])
    return DIGEST


def test_a_payload_is_in_place_and_then_known_to_be(tmp_path):
    wanted = placement(tmp_path / "name")
    assert not wanted.is_done()

    wanted.fill(pull)

    assert (tmp_path / "name").read_bytes() == BODY
    assert wanted.is_done()
    assert os.listdir(tmp_path) == ["name"]  # noqa: PTH208 - names only


@pytest.mark.parametrize("there", [BODY[:-1], BODY[:-1] + b"?", b""])
def test_another_payload_in_its_place_is_not_taken_for_it(tmp_path, there):
    (tmp_path / "name").write_bytes(there)

    wanted = placement(tmp_path / "name")

    assert not wanted.is_done()
    wanted.fill(pull)
    assert wanted.is_done()


@pytest.mark.parametrize("wrong", [{"size": 3}, {"digest": "0" * 64}])
def test_wrong_bytes_are_refused_and_leave_nothing(tmp_path, wrong):
    with pytest.raises(LargeMessageCorrupt):
        placement(tmp_path / "name", **wrong).fill(pull)

    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_the_place_of_a_payload_is_told_in_one_sentence(tmp_path):
    (tmp_path / "name").mkdir()
    wanted = placement(tmp_path / "name")

    assert not wanted.is_done()
    with pytest.raises(StoreError, match="it is no regular file"):
        wanted.fill(pull)
    assert [path.is_dir() for path in tmp_path.iterdir()] == [True]


def test_a_pull_that_fails_leaves_what_was_there(tmp_path):
    (tmp_path / "name").write_bytes(b"before")

    def fail(target):
        target.write(b"half")
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        placement(tmp_path / "name").fill(fail)

    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


@pytest.mark.parametrize(
    ("number", "error"), [(errno.ENOSPC, StoreFull), (errno.EROFS, StoreError)]
)
def test_what_is_wrong_with_the_disk_is_told_in_one_sentence(tmp_path, number, error):
    def fail(target):
        target.write(b"half")
        raise OSError(number, os.strerror(number))

    with pytest.raises(error) as caught:
        placement(tmp_path / "name").fill(fail)

    assert str(tmp_path / "name") in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_that_the_queue_manager_met_is_told_as_one(tmp_path):
    """It writes into files of a landing on its own machine, and says why it cannot."""

    def fail(target):
        raise target.partial.spoilt(os.strerror(errno.ENOSPC))

    with pytest.raises(StoreFull, match="no room on the disk"):
        placement(tmp_path / "name").fill(fail)

    assert list(tmp_path.iterdir()) == []


def test_what_unfinished_attempts_left_is_removed(tmp_path):
    (tmp_path / ".name.123.partial").touch()
    (tmp_path / "name.partial").touch()

    assert remove_partials(tmp_path) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["name.partial"]
