"""The Pythons that tests are run on: the oldest of each promised minor version, oldest first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.pythons import HOUSE, Python, chosen, interpreters


def test_the_oldest_patch_of_each_promised_minor_version_is_chosen_oldest_first():
    found = [
        Python((3, 13, 0), "d"),
        Python((3, 11, 7), "c"),
        Python((3, 11, 2), "b"),
        Python((3, 10, 13), "a"),
        Python((3, 13, 2), "e"),
        Python((3, 11, 2), "the same again"),
    ]
    assert [each.path for each in chosen(found)] == ["b", "d"]


def test_nothing_is_chosen_where_all_are_too_old():
    assert not chosen([Python((3, 10, 13), "a")])


@pytest.mark.slow
def test_the_python_that_runs_this_is_found_outside_its_environment(monkeypatch):
    folders = (Path(sys.executable).parent, Path(sys.base_exec_prefix) / "bin")
    monkeypatch.setenv("PATH", ":".join(map(str, folders)))
    found = list(interpreters())
    assert sys.version_info[:3] in {each.version for each in found}
    assert str(Path(sys.executable).parent) not in {str(Path(each.path).parent) for each in found}


@pytest.mark.slow
def test_the_oldest_is_printed_for_the_script_of_ci():
    command = [sys.executable, HOUSE / "tools" / "pythons.py", "--oldest"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [chosen(interpreters())[0].path]


def test_the_environment_may_be_made_elsewhere_than_in_venv():
    code = "import tools.bootstrap as b; print(b.VENV.relative_to(b.HOUSE))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=HOUSE,
        env={"VENV": ".venvs/3.11.0", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == ".venvs/3.11.0"
