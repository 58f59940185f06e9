"""Every step of a client that has a name is one at which some crash matrix kills it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.crash import client_steps as steps

SOURCE = Path(__file__).parents[2] / "src" / "dray"
KILLED_AT = {
    "tests/crash/test_large_kills.py": ("SENDING", "UPLOADING", "RECEIVING", "TOLD_OF_A_HOLE"),
    "tests/crash/test_transfer_kills.py": ("OFFERING", "ACCEPTING"),
}


def named_in(text: str) -> set[str]:
    """The steps that a module says it has reached."""
    calls = re.findall(r"\breached\(([^)]*)\)", text)
    return {name for call in calls for name in re.findall(r'"([a-z-]+)"', call)}


def test_every_named_step_is_in_a_matrix_and_every_matrix_is_run():
    named = set().union(*(named_in(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")))
    listed = {step for lists in KILLED_AT.values() for each in lists for step in vars(steps)[each]}
    assert named == listed
    for matrix, lists in KILLED_AT.items():
        text = (SOURCE.parents[1] / matrix).read_text("utf-8")
        assert [each for each in lists if f"steps.{each}" not in text] == []


def test_a_step_in_no_matrix_is_found():
    assert named_in('reached("new-step")\nreached("kept" if done else "told")') == {
        "new-step",
        "kept",
        "told",
    }
