"""The text of queues' files: golden, readable after any edit, refused when it is none of ours."""

from __future__ import annotations

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.errors import StoreFull, StorePoisoned
from dray.model.limits import LABEL_CHARACTERS_MAX
from dray.store.lqs import (
    FILE_BYTES_MAX,
    FOLDER,
    Description,
    FileName,
    NotAFileOfOursError,
    QueueFiles,
    decode,
    encode,
    file_name,
    is_unfinished,
    parse_file_name,
    path_hash,
)
from dray.testing.disk import CrashEffect, SimDisk

ORDERS = Description(
    "\\private$\\orders", "private", "what people order", 1 << 30, None, journal=True
)
GUID = "0123456789abcdef0123456789abcdef"
GOLDEN = b"""\
[Properties]
Label=what people order
Type=private
QueueName=\\private$\\orders
Quota=1073741824
JQuota=none
Journal=yes
Transaction=yes
SystemQueue=no
[Signature]
Signature=Dray
Checksum=9f3220ff
"""

NAME = file_name(16, ORDERS.path)
NEW = f"{NAME}.new"


def test_the_bytes_are_what_they_always_were():
    assert encode(ORDERS) == GOLDEN
    assert decode(GOLDEN) == (ORDERS, True)
    assert file_name(16, ORDERS.path) == "00000010.8774014b"


def test_a_digest_is_said_only_of_a_queue_that_has_chosen_one():
    chosen = ORDERS._replace(digest="sha256")
    assert b"SystemQueue=no\nDigest=sha256\n[Signature]" in encode(chosen)
    assert decode(encode(chosen)) == (chosen, True)
    edited = GOLDEN.replace(b"SystemQueue=no\n", b"SystemQueue=no\nDigest=\n")
    assert decode(edited) == (ORDERS, False)


def test_names_are_taken_apart():
    assert parse_file_name("00000010.8774014b") == FileName(16, "", 0x8774014B)
    assert parse_file_name(f"{GUID}.8774014b") == FileName(None, GUID, 0x8774014B)
    for other in ("notes.txt", "10.8774014b", "00000010.8774014B", "00000010.8774014b.new", ""):
        assert parse_file_name(other) is None


def test_the_hash_is_that_of_the_name_in_any_case():
    assert path_hash("\\private$\\ORDERS") == path_hash("\\private$\\orders")
    assert path_hash("a") != path_hash("b")


@given(
    label=st.text(st.characters(exclude_categories=["Cs"]), max_size=249),
    quota=st.none() | st.integers(0, 1 << 62),
    journal=st.booleans(),
)
def test_whatever_a_label_holds_it_comes_back(label, quota, journal):
    description = ORDERS._replace(label=label, quota=quota, journal=journal)
    assert decode(encode(description)) == (description, True)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"\n", b"\r\n"),
        (b"[Properties]", b"\xef\xbb\xbf# mine\n\n[Properties]"),
        (b"Quota=1073741824", b"quota = 1 GiB"),
        (b"Journal=yes", b"JOURNAL=TRUE"),
        (b"Journal=yes", b"Journal=1"),
        (b"SystemQueue=no", b"SystemQueue=False"),
        (b"SystemQueue=no", b"SystemQueue=0"),
        (b"Checksum=9f3220ff", b"Checksum=00000000"),
        (b"[Signature]\nSignature=Dray\nChecksum=9f3220ff\n", b""),
    ],
)
def test_an_edited_file_says_the_same_unsigned(old, new):
    edited = GOLDEN.replace(old, new, -1 if old == b"\n" else 1)
    assert edited != GOLDEN
    found = decode(edited)
    assert found == (ORDERS, False)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (b"", "no readable section"),
        (b"\0" * 400, "no readable section"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x" * (FILE_BYTES_MAX + 1), "more than"),
        (GOLDEN.replace(b"Quota=1073741824", b"Quota=-1"), "must be a size"),
        (GOLDEN.replace(b"Transaction=yes", b"Transaction=2"), "must be yes or no"),
        (GOLDEN.replace(b"Transaction=yes\n", b""), "lacks Transaction"),
        (GOLDEN.replace(b"Label=", b"Lable="), "unknown property 'lable'"),
        (GOLDEN + b"[More]\nx=y\n", "unknown property 'More'"),
        (GOLDEN.replace(b"Label=", b"Label=a\nLabel="), "no readable section"),
        (GOLDEN.replace(b"Label=", b"Label=\\q"), "backslash before 'q'"),
        (GOLDEN.replace(b"Label=", b"Label=\\ud800"), "an incomplete character"),
        (GOLDEN.replace(b"Label=", b"Label=" + b"y" * 250), "more than 249"),
    ],
)
def test_what_is_no_file_of_ours_is_said_to_be_none(image, why):
    with pytest.raises(NotAFileOfOursError, match=why):
        decode(image)


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes_are_a_file_or_refused(image):
    with contextlib.suppress(NotAFileOfOursError):
        decode(image)


def test_every_damaged_byte_is_noticed_or_taken_for_an_edit():
    for at in range(len(GOLDEN)):
        for damage in (0x01, 0x80):
            image = bytearray(GOLDEN)
            image[at] ^= damage
            try:
                found = decode(bytes(image))
            except NotAFileOfOursError:
                continue
            assert found.description == ORDERS or not found.signed


# ------------------------------------------------------------------------------- the folder


@pytest.fixture
def disk():
    return SimDisk(Random(1))


def text_of(disk, name):
    return disk.image(f"{FOLDER}/{name}")


def test_only_what_was_captured_is_flushed_and_then_it_is_durable(disk):
    files = QueueFiles(disk)
    files.write("a", ORDERS)
    captured = files.captured
    files.write("b", ORDERS)
    assert files.stated == 2
    files.flush(captured)
    after = disk.after_crash(CrashEffect.LOST)
    assert after.names(FOLDER) == ["a"]
    assert text_of(after, "a") == GOLDEN
    files.flush(files.captured)
    assert files.captured == 0
    files.remove("a")
    files.remove("never")
    files.flush(files.captured)
    assert disk.after_crash(CrashEffect.LOST).names(FOLDER) == ["b"]


def test_of_several_changes_the_last_one_counts(disk):
    files = QueueFiles(disk)
    files.write("a", ORDERS)
    files.remove("a")
    files.write("b", ORDERS)
    files.write("b", ORDERS._replace(quota=5))
    files.flush(files.captured)
    assert disk.names(FOLDER) == ["b"]
    assert decode(text_of(disk, "b")).description.quota == 5


def test_a_full_disk_keeps_changes_waiting_and_refuses_nothing(disk):
    files = QueueFiles(disk)
    disk.full_after(10)
    files.write("a", ORDERS)
    assert files.unwritten == 1
    files.flush(files.captured)
    assert isinstance(files.refused, StoreFull)
    assert files.unwritten == 0, "nobody waits for a disk without room"
    assert disk.names(FOLDER) == ["a.new"]
    disk.full_after(10_000)
    files.flush(files.captured)
    assert files.refused is None
    assert disk.names(FOLDER) == ["a"]


def test_a_damaged_file_stays_where_it_is_when_the_disk_is_full(disk):
    files = QueueFiles(disk)
    file = disk.open(f"{FOLDER}/a")
    file.write(b"damaged", 0)
    file.sync()
    disk.full_after(10)
    assert files.replace_damaged("a", ORDERS) == f"{FOLDER}/a"
    assert isinstance(files.refused, StoreFull)
    assert text_of(disk, "a") == b"damaged"
    disk.full_after(10_000)
    assert files.replace_damaged("a", ORDERS) == "quarantine/a.1"
    after = disk.after_crash(CrashEffect.LOST)
    assert (after.names(FOLDER), after.names("quarantine")) == (["a"], ["a.1"])
    assert (text_of(after, "a"), after.image("quarantine/a.1")) == (GOLDEN, b"damaged")


@pytest.mark.parametrize("fate", list(CrashEffect))
@pytest.mark.parametrize("nth", range(1, 6))
def test_a_damaged_file_that_is_replaced_is_there_at_every_moment(disk, nth, fate):
    file = disk.open(f"{FOLDER}/{NAME}")
    file.write(b"damaged", 0)
    file.sync()
    disk.sync_directory(FOLDER)
    disk.fail_sync(nth)
    with contextlib.suppress(StorePoisoned):
        QueueFiles(disk).replace_damaged(NAME, ORDERS)
    after = disk.after_crash(fate)
    (name,) = QueueFiles(after).names()
    damaged = [each for each in (f"{FOLDER}/{name}", f"quarantine/{name}.1") if after.exists(each)]
    assert b"damaged" in [after.image(each) for each in damaged], "all its bytes are kept"


def test_a_file_that_cannot_be_read_is_none_of_ours(disk, monkeypatch):
    files = QueueFiles(disk)
    files.write("a", ORDERS)
    files.flush(files.captured)
    assert files.read("a") == (ORDERS, True)
    disk.crash()
    with pytest.raises(NotAFileOfOursError, match="cannot be read"):
        files.read("a")


def test_only_the_name_of_a_queues_file_can_be_unfinished():
    assert is_unfinished(NEW)
    for name in (NAME, "notes.new", f"{NEW}.new", NAME.upper() + ".new"):
        assert not is_unfinished(name)


@pytest.mark.parametrize(
    ("there", "stays"),
    [
        ({NAME: b"old", NEW: GOLDEN}, {NAME: b"old"}),
        ({NEW: GOLDEN}, {NAME: GOLDEN}),
        ({NEW: GOLDEN[:-2]}, {}),
        ({NEW: GOLDEN[:40]}, {}),
        ({"notes.new": GOLDEN}, {"notes.new": GOLDEN}),
    ],
    ids=["already there", "whole", "torn signature", "torn", "of a stranger"],
)
def test_a_file_that_a_crash_left_unfinished_is_finished_if_it_is_whole_and_else_gone(
    disk, there, stays
):
    for name, image in there.items():
        disk.open(f"{FOLDER}/{name}").write(image, 0)
    assert QueueFiles(disk).names() == sorted(stays)
    assert {name: text_of(disk, name) for name in disk.names(FOLDER)} == stays


def test_each_file_that_is_put_aside_gets_a_name_of_its_own(disk):
    files = QueueFiles(disk)
    for number in (1, 2, 3):
        disk.open(f"{FOLDER}/a").write(b"%d" % number, 0)
        disk.sync_directory(FOLDER)
        assert files.quarantine("a") == f"quarantine/a.{number}"
    lost = disk.after_crash(CrashEffect.LOST)
    assert (lost.names(FOLDER), lost.names("quarantine")) == ([], ["a.1", "a.2", "a.3"])
    assert [disk.image(f"quarantine/a.{number}") for number in (1, 2, 3)] == [b"1", b"2", b"3"]


def test_a_file_and_a_label_that_are_exactly_as_long_as_they_may_be_are_read(disk):
    label = "y" * LABEL_CHARACTERS_MAX
    image = encode(ORDERS._replace(label=label))
    longest = image.replace(
        b"[Properties]", b"#" * (FILE_BYTES_MAX - len(image) - 1) + b"\n[Properties]"
    )
    assert len(longest) == FILE_BYTES_MAX == 65_536
    for name, whole in (("longest", longest), ("longer", b"#" + longest)):
        disk.open(f"{FOLDER}/{name}", size=len(whole)).write(whole, 0)
    assert QueueFiles(disk).read("longest").description.label == label
    with pytest.raises(NotAFileOfOursError, match="more than"):
        QueueFiles(disk).read("longer")


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("\x1b", r"\x1b"),
        ("\x9f", r"\x9f"),
        ("\xad", r"\xad"),
        ("\u0378", r"\u0378"),
        ("\u2028", r"\u2028"),
        ("\uffff", r"\uffff"),
        ("\U000e0001", "\U000e0001"),
        (" x ", r"\x20x\x20"),
    ],
)
def test_characters_that_cannot_be_seen_are_written_as_their_numbers(label, text):
    image = encode(ORDERS._replace(label=label))
    assert f"Label={text}\n".encode() in image
    assert decode(image) == (ORDERS._replace(label=label), True)
