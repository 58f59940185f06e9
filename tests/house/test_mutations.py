"""The tool that changes single lines finds the lines, and tells which change a test notices."""

from __future__ import annotations

import pytest

from tools import mutations, probe_notes

TEXT = '''"""What is said is not changed: 1 < 2."""
LIMIT = 41


def late(now, due, body, *, strict):
    """Nor is this: not 1."""
    del body
    count = 0
    if now < due and not strict:
        count = count + 1
    return count is None
'''


def test_each_operator_number_and_simple_statement_can_be_changed_and_no_docstring():
    found = list(mutations.in_text("m.py", TEXT))
    assert "del body" not in {each.before.strip() for each in found}
    changes = {each.after.strip() for each in found}
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
    compiled = source.parent / "__pycache__/bounds.pyc"
    compiled.parent.mkdir()
    compiled.touch()
    line = 1 if noticed else 2
    mutation = mutations.Mutation("src/dray/store/bounds.py", line, "", changed)
    stage = mutations.noticed_by(tmp_path, mutation)
    expected = "its own tests: tests/unit/store/test_bounds.py::test_limit"
    assert stage == (expected if noticed else "")
    assert source.read_text() == text
    assert not compiled.exists()


def test_a_test_that_fails_once_notices_nothing(tmp_path):
    (tmp_path / "test_chance.py").write_text(
        "from pathlib import Path\n\n"
        "def test_fails_the_first_time():\n"
        "    seen = Path('seen')\n"
        "    before = seen.exists()\n"
        "    seen.touch()\n"
        "    assert before\n"
    )
    assert mutations.failure(tmp_path, ["test_chance.py"]) == ""


def test_the_tests_that_a_probe_names_run_in_stages_with_all_their_cases():
    probed = [
        "tests/crash/test_kills.py::test_kill",
        "tests/unit/daemon/test_far.py::test_far",
        "tests/unit/store/log/test_bounds.py::test_limit[2]",
        "tests/unit/store/log/test_other.py::test_other",
        "tests/unit/store/test_store.py::test_store",
        "tests/unit/store/log/test_bounds.py::test_limit[1]",
        probe_notes.UNKNOWN,
    ]
    planned = dict(mutations.by_place("src/dray/store/log/bounds.py", probed))
    ran = [each for tests in planned.values() for each in tests]
    assert list(dict.fromkeys(ran)) == [
        "tests/unit/store/log/test_bounds.py::test_limit",
        "tests/unit/store/log/test_other.py::test_other",
        "tests/unit/store/test_store.py::test_store",
        "tests/unit/daemon/test_far.py::test_far",
        "tests/crash/test_kills.py::test_kill",
    ]
    assert next(iter(planned)) == "its own tests"
    assert list(planned)[-1] == "tests/crash"


def test_a_test_that_fails_without_the_change_notices_nothing(tmp_path):
    source = tmp_path / "src/dray/store/bounds.py"
    tests = tmp_path / "tests/unit/store/test_bounds.py"
    for path in (source, tests):
        path.parent.mkdir(parents=True)
    source.write_text("LIMIT = 41\n")
    tests.write_text("def test_fails():\n    assert False\n")
    mutation = mutations.Mutation("src/dray/store/bounds.py", 1, "", "LIMIT = 42")
    assert mutations.noticed_by(tmp_path, mutation) == ""
    assert source.read_text() == "LIMIT = 41\n"


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
