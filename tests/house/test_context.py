"""The context of a turn: its members are few, and only its own class sets them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.parsed import nodes

SRC = Path(__file__).parents[2] / "src"
MANAGER = SRC / "dray/manager"
DESK = {
    "state", "store", "config", "now", "now_us", "effects", "notices", "room", "own_messages",
    "follow_up", "begin_turn", "record", "answer", "refuse",
}  # fmt: skip
"""The members of the context. The set only shrinks: what belongs to one subject has an object of
its own (docs/decisions/0273)."""


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return {path.as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")}


def members_of(source: str, name: str) -> set[str]:
    """The public members of a class: its methods, and what any of them sets at `self`."""
    (made,) = [
        each for each in nodes(source) if isinstance(each, ast.ClassDef) and each.name == name
    ]
    found = {
        each.name for each in made.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    for node in ast.walk(made):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {node.attr} if ast.unparse(node.value) == "self" else set()
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return {each for each in found if not each.startswith("_")}


def test_the_context_has_no_other_members_than_it_had():
    source = (MANAGER / "context.py").read_text("utf-8")
    assert members_of(source, "Context") == DESK, "give a subject its own object; strike what left"


def test_a_new_member_of_the_context_is_noticed():
    source = (
        "class Context:\n    shared: int\n    def __init__(self, now):\n"
        "        self.now = self._at = now\n        self.queues: dict[int, str] = {}\n"
        "        self.near, other.far = now\n    def refuse(self): self.told = True\n"
        "    @property\n    def free(self): return 1\n"
    )
    assert members_of(source, "Context") == {
        "shared", "now", "queues", "near", "refuse", "told", "free"
    }  # fmt: skip


def set_from_outside(source: str) -> list[int]:
    """The lines that set a member of a context, which only its own class may do."""
    found = []
    for node in nodes(source):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        found += [
            each.lineno
            for target in targets
            for each in getattr(target, "elts", [target])
            if isinstance(each, ast.Attribute)
            and re.search(r"(^|\W)_?context$", ast.unparse(each.value))
        ]
    return found


def test_no_member_of_the_context_is_set_from_outside(files):
    found = {
        path: lines
        for path, text in files.items()
        if "dray/manager/" in path and (lines := set_from_outside(text))
    }
    assert not found, f"the context changes itself; call a method of it: {found}"


@pytest.mark.parametrize(
    "line",
    ["context.now = 1", "self._context.bytes += 1", "a, sources.context.b = 1, 2"],
)
def test_a_member_of_the_context_that_is_set_from_outside_is_noticed(line):
    assert set_from_outside(line) == [1]
    assert set_from_outside("self.context = context\ncontext.follow_up.tried = x") == []
