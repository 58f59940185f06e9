"""A probe names the tests that can tell a changed line, and changes nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from tools import probe_notes, probes

TEXT = '''"""A module."""

from __future__ import annotations

LIMIT = 3


def late(now, due=0):
    if now < due and due > 1:
        return "late"
    return "in time"


def count(items, more=1):
    total = 0
    for each in items:
        total += more
        if next(each) is None:
            break
    rest = [0, 1, 2, 3][total - 1 :]
    return [each for each in rest if not each < 2]
'''


@pytest.fixture
def probed(tmp_path, monkeypatch) -> Callable[[tuple[str, str]], tuple[ModuleType, Callable]]:
    """Gives the module with a probe for one change, and what reads the notes."""
    monkeypatch.setattr(probe_notes, "FOLDER", tmp_path)
    monkeypatch.setattr(probe_notes, "_noted", set())
    monkeypatch.setitem(sys.modules, probes.NOTES, probe_notes)
    monkeypatch.setenv("DRAY_PROBES_TEST", "")
    monkeypatch.delenv("DRAY_PROBES_TEST")
    (tmp_path / "7").touch()

    def make(change: tuple[str, str]) -> tuple[ModuleType, Callable]:
        assert TEXT.count(change[0]) == 1
        text, numbers = probes.with_probes(TEXT, [(7, TEXT.replace(*change))])
        assert numbers == [7]
        module = ModuleType("probed")
        exec(text, module.__dict__)  # noqa: S102 - it is made of the text above
        return module, lambda: (tmp_path / "7").read_text().splitlines()

    return make


@pytest.mark.parametrize(
    ("change", "same", "other"),
    [
        ((" < due", " <= due"), (1, 2), (2, 2)),
        ((" and ", " or "), (5, 1), (0, 1)),
        (("> 1", "> 2"), (1, 1), (1, 2)),
        (('return "late"', "pass"), (3, 2), (1, 2)),
    ],
)
def test_only_where_the_values_differ_is_the_test_named(probed, change, same, other):
    module, notes = probed(change)
    assert module.late(*same) == ("late" if same[0] < same[1] > 1 else "in time")
    assert notes() == []
    probe_notes.pytest_runtest_logstart("tests/test_a.py::test_it")
    for _ in range(2):
        assert module.late(*other) == ("late" if other[0] < other[1] > 1 else "in time")
    assert notes() == ["tests/test_a.py::test_it"]


@pytest.mark.parametrize(
    "change",
    [("is None", "is not None"), ("total += more", "pass"), ("not each", "each"), ("< 2", "< 4")],
)
def test_a_side_effect_happens_once_and_the_value_stays(probed, change):
    module, notes = probed(change)
    items = [iter([1, None]), iter([2, None]), iter([3, None])]
    assert module.count(items) == [2, 3]
    assert [next(each) for each in items] == [None] * 3
    assert notes() == [probe_notes.UNKNOWN]


@pytest.mark.parametrize("change", [("= 3", "= 4"), ("due=0", "due=1"), ("more=1", "more=2")])
def test_a_line_that_runs_at_import_has_no_probe(change):
    assert probes.with_probes(TEXT, [(7, TEXT.replace(*change))]) == (TEXT, [])


def test_a_bound_of_a_slice_is_asked_as_a_part_of_the_whole_expression(probed):
    module, notes = probed(("total - 1 :", "total + 1 :"))
    assert module.count([iter([None])]) == [2, 3]
    assert notes() == [probe_notes.UNKNOWN]


def test_two_changes_of_one_line_each_have_their_probe():
    changes = [(1, TEXT.replace(" < due", " <= due")), (2, TEXT.replace(" and ", " or "))]
    text, numbers = probes.with_probes(TEXT, changes)
    assert numbers == [1, 2]
    assert all(f"differs({each}, " in text for each in numbers)
