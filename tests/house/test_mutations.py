"""The tool that changes single lines finds the lines, and tells which change a test notices."""

from __future__ import annotations

import pytest

from tools import mutations

TEXT = '''"""What is said is not changed: 1 < 2."""
LIMIT = 41


def late(now, due, *, strict):
    """Nor is this: not 1."""
    count = 0
    if now < due and not strict:
        count = count + 1
    return count is None
'''


def test_each_operator_number_and_simple_statement_can_be_changed_and_no_docstring():
    changes = {each.after.strip() for each in mutations.in_text("m.py", TEXT)}
    assert changes == {
        "LIMIT = 42",
        "count = 1",
        "pass",
        "if now <= due and not strict:",
        "if now < due or not strict:",
        "if now < due and strict:",
        "count = count - 1",
        "count = count + 2",
        "return count is not None",
    }


@pytest.mark.parametrize(("changed", "noticed"), [("LIMIT = 42", True), ("OTHER = 43", False)])
def test_a_change_that_no_test_notices_survives_and_is_undone(tmp_path, changed, noticed):
    source = tmp_path / "src/dray/store/bounds.py"
    tests = tmp_path / "tests/unit/store/test_bounds.py"
    text = "LIMIT = 41\nOTHER = 42\n"
    for path in (source, tests):
        path.parent.mkdir(parents=True)
    source.write_text(text)
    tests.write_text(
        "from pathlib import Path\n\n"
        "def test_limit():\n"
        f"    assert 'LIMIT = 41' in Path({str(source)!r}).read_text()\n"
    )
    line = 1 if noticed else 2
    mutation = mutations.Mutation("src/dray/store/bounds.py", line, "", changed)
    stage = mutations.noticed_by(tmp_path, mutation)
    assert stage == ("its own tests" if noticed else "")
    assert source.read_text() == text


def test_each_test_file_runs_once_and_those_that_import_the_module_come_before_the_rest(tmp_path):
    for name, text in {
        "unit/store/test_bounds.py": "",
        "unit/store/test_other.py": "",
        "unit/daemon/test_far.py": "from dray.store.bounds import LIMIT",
        "unit/daemon/test_none.py": "",
        "integration/test_whole.py": "",
    }.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ran = []
    for _, files in mutations.stages(tmp_path, "src/dray/store/bounds.py"):
        ran += [each.removeprefix("tests/") for each in files]
    assert list(dict.fromkeys(ran)) == [
        "unit/store/test_bounds.py",
        "unit/store/test_other.py",
        "unit/daemon/test_far.py",
        "unit/daemon/test_none.py",
        "integration/test_whole.py",
    ]
