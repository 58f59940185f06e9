"""Promises of `dray.model.files`: a path that is plain stays below its folder."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.model.files import FileProperties, decode_file, encode_file, is_plain_path


@pytest.mark.parametrize(
    "path", ["a", "a/b", "...", "a\\b", "a:b", " ", "é/ü", os.fsdecode(b"\xff")]
)
def test_a_relative_path_is_plain(path):
    assert is_plain_path(path)


@pytest.mark.parametrize(
    "path", ["", "/", "/a", "a/", "a//b", "..", "a/..", "./a", "a\0", "\ud800"]
)
def test_any_other_path_is_not(path):
    assert not is_plain_path(path)


@given(st.binary(min_size=1, max_size=300))
def test_a_plain_path_never_leaves_its_folder(raw):
    path = os.fsdecode(raw)
    if is_plain_path(path):
        joined = os.path.normpath(os.path.join(b"/folder", os.fsencode(path)))  # noqa: PTH118
        assert joined == b"/folder/" + raw


@given(
    st.binary(min_size=1, max_size=50), st.integers(0, 1 << 62), st.integers(), st.integers(0, 7)
)
def test_what_is_encoded_is_decoded(raw, size, mtime_ns, mode):
    file = FileProperties(os.fsdecode(raw), size, mtime_ns, mode)
    assert decode_file(encode_file(file)) == file
