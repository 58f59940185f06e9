"""Every ratchet over the whole repository."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import dray
from dray import errors
from tests.house import ratchets
from tools.write_reference import PACKAGES, REFERENCE, modules_page

HOUSE = Path(__file__).parents[2]
SOURCE = HOUSE / "src" / "dray"
PYPROJECT = HOUSE / "pyproject.toml"
CORES = {"delivery", "large", "manager", "offline", "transfer", "wire"}
WIRE_ONLY = {"client", "console", "spark"}


def source_files() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def repository_texts() -> Iterator[tuple[str, str]]:
    """Each file that is or could be committed, as text; the lock and binary files left out."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    answer = subprocess.run(listing, cwd=HOUSE, capture_output=True, text=True, check=False)
    if answer.returncode:
        pytest.skip("not a git checkout")
    for name in answer.stdout.split("\0"):
        path = HOUSE / name
        if name and name != "uv.lock" and path.is_file():
            content = path.read_bytes()
            if b"\0" not in content:
                yield name, content.decode("utf-8", "replace")


def all_errors(root: type) -> Iterator[type]:
    yield root
    for child in root.__subclasses__():
        if child.__module__.startswith("dray."):
            yield from all_errors(child)


@pytest.mark.parametrize(
    "ratchet",
    [
        ratchets.long_module,
        ratchets.long_functions,
        ratchets.missing_docstring,
        ratchets.forbidden_name,
        ratchets.prints,
        ratchets.clock_and_chance,
        ratchets.bounds_without_reason,
        ratchets.full_stops,
        ratchets.capitals,
    ],
)
def test_source_keeps_the_rule(ratchet):
    complaints = []
    for path in source_files():
        complaints += ratchet(path.relative_to(SOURCE).as_posix(), path.read_text("utf-8"))
    assert not complaints, "\n".join(complaints)


def test_no_test_reaches_into_a_manager():
    complaints = []
    for path in (HOUSE / "tests").rglob("*.py"):
        name = path.relative_to(HOUSE).as_posix()
        if name != "tests/inspection.py":
            complaints += ratchets.reaches_into_a_manager(name, path.read_text("utf-8"))
    assert not complaints, "\n".join(complaints)


def test_no_folder_of_the_manager_is_crowded():
    assert not list(
        ratchets.crowded_rooms([path.relative_to(SOURCE).as_posix() for path in source_files()])
    )


@pytest.mark.parametrize("ratchet", [ratchets.machine_paths, ratchets.unfinished])
def test_repository_keeps_the_rule(ratchet):
    complaints = [line for name, text in repository_texts() for line in ratchet(name, text)]
    assert not complaints, "\n".join(complaints)


def test_every_lint_rule_left_out_has_its_reason():
    assert not list(ratchets.ignores_without_reason("pyproject.toml", PYPROJECT.read_text("utf-8")))


def test_lock_names_only_the_public_index():
    assert not list(ratchets.foreign_hosts("uv.lock", (HOUSE / "uv.lock").read_text("utf-8")))


def test_every_error_has_a_code_and_stands_at_the_front_door():
    classes = list(dict.fromkeys(all_errors(errors.DrayError)))
    exported = {error.__name__ for error in classes if getattr(dray, error.__name__, None) is error}
    assert not list(ratchets.weak_errors(classes, exported))


def test_the_tree_of_errors_is_drawn_whole():
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__)
    assert sorted(["DrayError", *drawn]) == sorted(
        error.__name__ for error in errors.every_error().values()
    )


@pytest.mark.parametrize(("contract", "wanted"), [("cores", CORES), ("fence", WIRE_ONLY)])
def test_every_package_stands_inside_its_fence(contract, wanted):
    contracts = tomllib.loads(PYPROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    sources = next(each["source_modules"] for each in contracts if each["id"] == contract)
    fenced = {name.removeprefix("dray.") for name in sources}
    present = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert not list(ratchets.unfenced(present, wanted, fenced))


def test_the_page_of_modules_is_what_the_source_says():
    assert {folder for folder, _ in PACKAGES} == {
        path.parent.relative_to(SOURCE).as_posix().removeprefix(".") for path in source_files()
    }
    assert (REFERENCE / "modules.md").read_text("utf-8") == modules_page(), (
        "run tools/write_reference.py"
    )


def test_every_test_that_a_page_names_is_there():
    texts = [path.read_text("utf-8") for path in (HOUSE / "tests").rglob("test_*.py")]
    there = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}
    for page in (HOUSE / "docs").rglob("*.md"):
        text = page.read_text("utf-8")
        named = set(re.findall(r"\b(test_\w+)(?!\w|\.py)", text))
        assert named <= there | set(re.findall(r"^def (test_\w+)", text, re.MULTILINE)), page
