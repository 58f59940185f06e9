"""One word, one meaning: a class name exists once in `src`."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.house.parsed import nodes

SRC = Path(__file__).parents[2] / "src"

BOTH_FACES = frozenset(
    {
        "Cursor",
        "Incoming",
        "LargeMessage",
        "LargeMessageQueue",
        "Manager",
        "Offer",
        "Queue",
        "Receiver",
        "RunningTransfer",
        "Transaction",
    }
)
"""Public classes that `dray` has for threads and `dray.aio` for coroutines, under one name."""


def class_names(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """For each name of a class, also of one inside another or in a function, where it is."""
    found = defaultdict(list)
    for path, source in sorted(sources.items()):
        for node in nodes(source):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(path)
    return found


def test_a_class_name_exists_once():
    sources = {
        path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")
    }
    twice = {
        name: paths
        for name, paths in class_names(sources).items()
        if len(paths) > (2 if name in BOTH_FACES else 1)
    }
    assert not twice, f"give one of each pair another name: {twice}"


def test_a_public_class_has_a_face_of_each_kind():
    for name in BOTH_FACES:
        paths = [path for path in (SRC / "dray/client").rglob("*.py") if _defines(path, name)]
        assert [path.parent.name for path in paths].count("awaited") == 1, (name, paths)
        assert len(paths) >= 2, (name, paths)


def test_a_class_is_found_wherever_it_is_defined():
    sources = {
        "a.py": "class _Run: ...\n",
        "b.py": "def f():\n    class _Run: ...\nclass Other:\n    class Inner: ...\n",
    }
    assert class_names(sources) == {
        "_Run": ["a.py", "b.py"],
        "Other": ["b.py"],
        "Inner": ["b.py"],
    }


def _defines(path: Path, name: str) -> bool:
    return name in class_names({path.name: path.read_text("utf-8")})
