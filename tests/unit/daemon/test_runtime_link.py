"""The link to the socket of an account's queue manager: had by the first that runs."""

from __future__ import annotations

import logging

import pytest

from dray.daemon.sockets.listener import listen_unix
from dray.daemon.sockets.runtime_link import RuntimeLink


@pytest.fixture
def link(tmp_path):
    return tmp_path / "run" / "dray.sock"


def test_a_link_is_made_with_its_directory_and_goes_with_its_manager(tmp_path, link):
    made = RuntimeLink(link, tmp_path / "a.sock")
    assert link.readlink() == tmp_path / "a.sock"
    assert link.parent.stat().st_mode & 0o777 == 0o700
    made.remove()
    assert not link.is_symlink()
    made.remove()


def test_a_link_on_which_somebody_answers_stays(tmp_path, link):
    sock, _ = listen_unix(str(tmp_path / "a.sock"))
    with sock:
        RuntimeLink(link, tmp_path / "a.sock")
        second = RuntimeLink(link, tmp_path / "b.sock")
        assert link.readlink() == tmp_path / "a.sock"
        second.remove()
        assert link.readlink() == tmp_path / "a.sock"


def test_a_link_that_a_dead_manager_left_is_replaced(tmp_path, link):
    listen_unix(str(tmp_path / "a.sock"))[0].close()
    RuntimeLink(link, tmp_path / "a.sock")
    RuntimeLink(link, tmp_path / "b.sock")
    assert link.readlink() == tmp_path / "b.sock"


def test_a_manager_runs_without_a_link_where_it_can_have_none(tmp_path, link, caplog):
    link.parent.write_text("a file, and no directory")
    with caplog.at_level(logging.WARNING):
        RuntimeLink(link, tmp_path / "a.sock").remove()
    assert "cannot be linked" in caplog.text
