"""`dray cert`: what it makes, says and refuses."""

from __future__ import annotations

import stat

import pytest

from tests.integration.commands import dray

pytestmark = pytest.mark.slow


def test_two_commands_make_what_mutual_tls_needs(tmp_path):
    said = dray("cert", "init", cwd=tmp_path).assert_good().out
    assert "ca.key: keep it secret" in said
    issued = dray("cert", "issue", "depot", "--host", "10.0.0.2", "--json", cwd=tmp_path)
    assert issued.assert_good().value == {
        "file": "depot.pem",
        "caller": "cert:depot",
        "hosts": ["10.0.0.2"],
    }
    made = {each.name: stat.S_IMODE(each.stat().st_mode) for each in tmp_path.iterdir()}
    assert made == {"ca.pem": 0o600, "ca.key": 0o600, "depot.pem": 0o600}


def test_a_file_that_is_there_and_a_folder_that_is_not_are_refused(tmp_path):
    dray("cert", "init", "--dir", tmp_path).assert_good()
    again = dray("cert", "init", "--dir", tmp_path)
    assert "is there already" in again.assert_error("invalid-configuration")
    nowhere = dray("cert", "init", "--dir", tmp_path / "none")
    assert "choose another folder with --dir" in nowhere.assert_error("target-unwritable")
    without = dray("cert", "issue", "depot", "--dir", tmp_path / "none")
    assert "dray cert init" in without.assert_error("invalid-configuration")
    named = dray("cert", "issue", "../depot", "--dir", tmp_path)
    assert "cannot be a name" in named.assert_error("invalid-argument")
