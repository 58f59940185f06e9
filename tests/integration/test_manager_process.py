"""`dray.testing.ManagerProcess`, as tests of applications use it: what a wrong call says."""

import os

import pytest

import dray
from dray.testing import ManagerProcess


def test_a_process_that_was_not_started_has_no_address_and_says_so(tmp_path):
    process = ManagerProcess("early", str(tmp_path))
    for asked in (lambda: process.url, lambda: process.pid, process.connect):
        with pytest.raises(dray.Misuse, match="early has not been started"):
            asked()
    assert not process.running


@pytest.mark.slow
def test_a_second_start_is_refused_and_the_process_of_the_first_one_ends_with_the_block(tmp_path):
    with ManagerProcess("twice", tmp_path) as process:
        pid = process.pid
        with pytest.raises(dray.Misuse, match=f"runs as process {pid}; stop it first"):
            process.start()
        assert process.running
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.slow
def test_options_that_serve_refuses_are_said_by_the_start(tmp_path):
    with pytest.raises(dray.DrayError, match="No such option '--nonsense'"):
        ManagerProcess("wrong", tmp_path, ["--nonsense"]).start()
