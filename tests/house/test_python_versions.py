"""The oldest promised Python, 3.11.0, has everything that the code uses."""

from __future__ import annotations

import re
import tomllib
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.house.python_versions import TARGET, later_minors, later_patches

HOUSE = Path(__file__).parents[2]
FOLDERS = [HOUSE / name for name in ("src", "tests", "tools", "benches")]


def files() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted(folder.rglob("*.py"))]


@pytest.mark.slow
def test_the_code_uses_nothing_later_than_the_first_promised_python(pytestconfig):
    """A file that has passed is not looked at again until it changes: vermin takes its time."""
    known = f"vermin/{version('vermin')}-{TARGET}"
    kept = pytestconfig.cache if pytestconfig.pluginmanager.hasplugin("cacheprovider") else None
    passed = set(kept.get(known, []) if kept else [])
    digests = {path: sha256(path.read_bytes()).hexdigest() for path in files()}
    new = [path for path, digest in digests.items() if digest not in passed]
    assert not new or later_minors(*new) == []
    if kept:
        kept.set(known, sorted(set(digests.values())))


@pytest.mark.slow
def test_the_code_uses_nothing_that_came_with_a_patch_release():
    assert len(files()) > len(FOLDERS)
    complaints = []
    for path in files():
        complaints += later_patches(path.relative_to(HOUSE).as_posix(), path.read_text("utf-8"))
    assert not complaints, "\n".join(complaints)


def test_every_place_names_the_same_oldest_python():
    settings = tomllib.loads((HOUSE / "pyproject.toml").read_text("utf-8"))
    classifiers = settings["project"]["classifiers"]
    minors = [each for each in classifiers if re.fullmatch(r".*Python :: 3\.\d+", each)]
    assert settings["project"]["requires-python"] == f">={TARGET}"
    assert settings["tool"]["mypy"]["python_version"] == TARGET
    assert settings["tool"]["ruff"]["target-version"] == f"py{TARGET.replace('.', '')}"
    assert minors[0].endswith(TARGET)


@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("archive.extractall(goal, filter='data')", "archive.extractall(goal)"),
        ("archive.extract(member, filter='data')", "message.extract(filter)"),
        ("x = tarfile.data_filter", "x = getattr(tarfile, 'data_filter', None)"),
        ("from tarfile import data_filter", "from tarfile import TarFile"),
        ("os.path.realpath(p, strict=os.path.ALLOW_MISSING)", "os.path.realpath(p, strict=True)"),
    ],
)
def test_a_feature_of_a_patch_release_is_refused(bad, good):
    assert list(later_patches("a.py", bad))
    assert not list(later_patches("a.py", good))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "good"),
    [
        ("type Name = str\n", "Name = str\n"),
        ("import itertools\nitertools.batched([], 2)\n", "import itertools\nitertools.count()\n"),
        ("from typing import override\n", "from typing import Self\n"),
    ],
    ids=["syntax", "function", "name"],
)
def test_a_feature_of_a_later_python_is_refused(bad, good, tmp_path):
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "a.py").write_text(bad)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "a.py").write_text(good)
    assert later_minors(tmp_path / "bad")
    assert not later_minors(tmp_path / "good")
