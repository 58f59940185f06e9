"""A room of the manager shows which of its modules are open; the others are private to it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.house.parsed import nodes

SRC = Path(__file__).parents[2] / "src"
MANAGER = SRC / "dray/manager"
ROOMS = sorted(path.parent.name for path in MANAGER.glob("*/__init__.py"))


OPEN_MODULES = {
    "change": 11,
    "disk": 4,
    "entries": 5,
    "incoming": 1,
    "peers": 5,
    "queue": 7,
    "requests": 2,
    "rights": 6,
    "state": 4,
    "transactions": 6,
}
"""How many modules each room opens. The numbers only go down."""

DESK = {
    "state", "store", "config", "now", "now_us", "effects", "notices", "room", "own_messages",
    "follow_up", "begin_turn", "record", "answer", "refuse",
}  # fmt: skip
"""The members of the context. The set only shrinks: what belongs to one subject has an object of
its own (docs/decisions/0273)."""


@cache
def imported(source: str) -> frozenset[str]:
    """Every module that a file names in an import, also in a function or for types only."""
    found: set[str] = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def used_from_outside(room: str, modules: Iterable[str], files: Mapping[str, str]) -> set[str]:
    """The modules of a room that files outside of it import."""
    place = f"dray/manager/{room}/"
    named = set[str]().union(*(imported(text) for path, text in files.items() if place not in path))
    return {each for each in modules if f"dray.manager.{room}.{each}" in named}


def opened(docstring: str) -> set[str]:
    """The modules that the docstring of a room says are open."""
    _, _, rows = docstring.partition("Other rooms use these modules")
    return set(re.findall(r"^ {4}(\w+) {2,}\w", rows, re.MULTILINE))


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return {path.as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")}


@pytest.mark.parametrize("room", ROOMS)
def test_other_rooms_use_exactly_the_modules_that_a_room_opens(room, files):
    modules = {path.stem for path in (MANAGER / room).glob("*.py")} - {"__init__"}
    docstring = ast.get_docstring(
        ast.parse((MANAGER / room / "__init__.py").read_text("utf-8")), clean=False
    )
    assert used_from_outside(room, modules, files) == opened(docstring or "")


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_opens_no_more_modules_than_it_did(room):
    docstring = ast.get_docstring(
        ast.parse((MANAGER / room / "__init__.py").read_text("utf-8")), clean=False
    )
    found = len(opened(docstring or ""))
    assert found == OPEN_MODULES[room], "keep a new module private; write a smaller number down"


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


def test_every_room_is_looked_at():
    assert set(ROOMS) >= {"requests", "peers", "change", "state", "queue"}


def test_an_import_of_a_private_module_is_noticed():
    docstring = "A room.\n\nOther rooms use these modules; ...:\n\n    queues    a queue\n"
    files = {
        "src/dray/manager/queue/queues.py": "from dray.manager.queue import packing\n",
        "src/dray/manager/turn.py": (
            "def f():\n    from dray.manager.queue.queues import Queue\n"
            "if TYPE_CHECKING:\n    from dray.manager.queue.packing import pack\n"
        ),
    }
    assert opened(docstring) == {"queues"}
    assert used_from_outside("queue", ["queues", "packing"], files) == {"queues", "packing"}
    files.pop("src/dray/manager/turn.py")
    assert used_from_outside("queue", ["queues", "packing"], files) == set()
