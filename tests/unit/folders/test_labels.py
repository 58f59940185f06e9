"""Labels from other machines become plain, safe file names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.folders.labels import NAME_BYTES_MAX, file_name, numbered, short_numbered


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("some/where/report.pdf", "report.pdf"),
        ("C:\\some\\report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("..", "message-7"),
        ("", "message-7"),
        ("/", "message-7"),
        (".bashrc", "bashrc"),
        ("a\x00b\x1b[31m.txt", "a_b_[31m.txt"),
        ("what?.txt", "what_.txt"),
        ("  spaced out .txt ", "spaced out .txt"),
        ("höhe.txt", "höhe.txt"),
        ("gnp\u202efdp.exe", "gnpfdp.exe"),
    ],
)
def test_a_label_becomes_one_plain_name(label, name):
    assert file_name(label, "message-7") == name


def test_a_long_label_keeps_its_ending():
    name = file_name("ä" * 240 + ".tar", "other")
    assert len(name.encode()) <= NAME_BYTES_MAX
    assert name.endswith("ä.tar")


def test_a_name_that_is_taken_is_numbered_before_its_ending():
    names = [numbered("report.pdf", count) for count in (1, 2, 3)]
    assert names == ["report.pdf", "report (2).pdf", "report (3).pdf"]
    assert numbered("plain", 2) == "plain (2)"


@given(st.text(max_size=300), st.text(max_size=20))
def test_no_label_leads_anywhere_but_into_its_directory(label, otherwise):
    name = file_name(label, otherwise)
    assert name not in {"", ".", ".."}
    assert not name.startswith(".")
    assert not set(name) & set("/\\\x00\n\x1b\x7f")
    assert len(numbered(name, 1_000_000).encode()) < 255


def test_a_numbered_name_of_a_long_path_is_short_enough_for_a_file_system():
    assert short_numbered("é" * 127, 12) == "é" * 125 + " (12)"
