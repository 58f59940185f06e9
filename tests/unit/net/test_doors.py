"""Where programs look for a queue manager that they have no address of."""

from __future__ import annotations

from pathlib import Path

from dray.net.doors import default_url, runtime_link, socket_of


def test_the_link_is_in_the_runtime_directory_else_in_the_state_of_the_account(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert runtime_link() == Path("/run/user/7/dray.sock")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert runtime_link() == Path.home() / ".local/state/dray/dray.sock"


def test_dray_url_comes_before_the_link(monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user name")
    monkeypatch.delenv("DRAY_URL", raising=False)
    assert default_url() == "dray+unix:///run/user%20name/dray.sock"
    monkeypatch.setenv("DRAY_URL", "drays://depot")
    assert default_url() == "drays://depot"


def test_the_socket_of_a_manager_is_in_its_data_directory(tmp_path):
    assert socket_of(tmp_path) == tmp_path / "dray.sock"
