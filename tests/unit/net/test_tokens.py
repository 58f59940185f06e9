"""Tokens as programs hold them."""

from __future__ import annotations

import os

import pytest

from dray.errors import InvalidConfiguration
from dray.net.tokens import is_within_machine, read_token


def kept(folder, content, mode=0o600):
    file = folder / "token"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def test_a_token_is_read_from_a_file_of_its_owner(tmp_path):
    assert read_token(kept(tmp_path, b"secret\n")) == "secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_file_that_others_can_open_is_refused(tmp_path, mode):
    with pytest.raises(InvalidConfiguration, match="can be opened by others"):
        read_token(kept(tmp_path, b"secret", mode))


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff\xfe"])
def test_a_file_without_a_token_is_refused(tmp_path, content):
    with pytest.raises(InvalidConfiguration, match=r"no token|is empty"):
        read_token(kept(tmp_path, content))


def test_what_is_no_file_is_refused_and_nothing_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", "a\0b"):
        with pytest.raises(InvalidConfiguration):
            read_token(path)


def test_only_names_of_this_machine_are_within_it():
    assert all(map(is_within_machine, ("localhost", "LocalHost", "127.0.0.1", "127.9.9.9", "::1")))
    assert not any(map(is_within_machine, ("depot", "10.0.0.1", "0.0.0.0", "::", "")))  # noqa: S104
