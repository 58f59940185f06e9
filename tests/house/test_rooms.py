"""A room of the manager has one face, its `__init__.py`; everything else is private to the room."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.imports import origin
from tests.house.parsed import module, nodes

SRC = Path(__file__).parents[2] / "src"
ROOMS = sorted(path.parent.name for path in SRC.glob("dray/manager/*/__init__.py"))


class Taken(NamedTuple):
    """What a file takes from a room: a name of its face, or a module, and then `name` is empty."""

    path: str
    room: str
    module: str
    name: str


def taken(path: str, source: str, files: Mapping[str, str]) -> Iterator[Taken]:
    """All that a file imports from rooms, also in a function or for types only."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            named = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            begins = origin(path, node)
            named = [(begins, alias.name) for alias in node.names]
        else:
            continue
        for place, name in named:
            _, manager, room, *inside = [*place.split("."), "", "", ""]
            if not place.startswith("dray.manager") or manager != "manager":
                continue
            if not room and is_file(f"dray/manager/{name}/__init__.py", files):
                yield Taken(path, name, "__init__", "")
            elif is_file(f"dray/manager/{room}/__init__.py", files):
                within = inside[0] or ("" if name else "__init__")
                if not within and is_file(f"dray/manager/{room}/{name}.py", files):
                    within = name
                yield Taken(path, room, within, "" if within else name)


def is_file(path: str, files: Mapping[str, str]) -> bool:
    return path in files


def taken_from_outside(room: str, files: Mapping[str, str]) -> list[Taken]:
    """What files outside of a room take from it."""
    place = f"dray/manager/{room}/"
    return [
        each
        for path, source in files.items()
        if not path.startswith(place)
        for each in taken(path, source, files)
        if each.room == room
    ]


def past_the_face(room: str, files: Mapping[str, str]) -> list[str]:
    """Files outside of a room that import a module of it, or the room as a name space."""
    return [each.path for each in taken_from_outside(room, files) if each.module]


def asks_itself(room: str, files: Mapping[str, str]) -> list[str]:
    """Files of a room that import its face, where the module itself should be named."""
    place = f"dray/manager/{room}/"
    return [
        path
        for path, source in files.items()
        if path.startswith(place)
        for each in taken(path, source, files)
        if each.room == room and (each.name or each.module == "__init__")
    ]


def face(source: str) -> set[str]:
    """The names that a face imports for others."""
    return {
        alias.name
        for node in module(source).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def told_askers(source: str) -> set[str]:
    """Whom the docstring of a face names as those that ask the room."""
    docstring = ast.get_docstring(module(source)) or ""
    _, _, sentence = docstring.partition("These ask it: ")
    return set(re.findall(r"`([\w.]+)`", sentence))


def askers(room: str, files: Mapping[str, str]) -> set[str]:
    """Rooms and modules of the manager, and other packages, that import from a room."""
    found = set()
    for path in {each.path for each in taken_from_outside(room, files)}:
        _, package, *inside = path.removesuffix(".py").split("/")
        found.add(inside[0] if package == "manager" else f"dray.{package}")
    return found


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    return {path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")}


@pytest.mark.parametrize("room", ROOMS)
def test_others_import_the_face_of_a_room_and_no_module_of_it(room, files):
    assert not past_the_face(room, files)


@pytest.mark.parametrize("room", ROOMS)
def test_a_face_names_exactly_what_others_use(room, files):
    used = {each.name for each in taken_from_outside(room, files)}
    assert face(files[f"dray/manager/{room}/__init__.py"]) == used


@pytest.mark.parametrize("room", ROOMS)
def test_no_name_of_a_face_is_also_a_module_of_its_room(room, files):
    modules = {Path(path).stem for path in files if path.startswith(f"dray/manager/{room}/")}
    assert not face(files[f"dray/manager/{room}/__init__.py"]) & modules


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_does_not_ask_its_own_face(room, files):
    assert not asks_itself(room, files)


@pytest.mark.parametrize("room", ROOMS)
def test_a_face_tells_who_asks_the_room(room, files):
    assert told_askers(files[f"dray/manager/{room}/__init__.py"]) == askers(room, files)


def test_every_room_is_looked_at():
    assert set(ROOMS) >= {
        "change", "disk", "entries", "incoming", "peers", "queue", "requests", "rights", "state",
        "transactions",
    }  # fmt: skip


HOUSE = {
    "dray/manager/__init__.py": "",
    "dray/manager/queue/__init__.py": (
        '"""A room.\n\nThese ask it: `state`, `turn` and `dray.offline`.\n"""\n'
        "from dray.manager.queue.queues import Queue\n"
    ),
    "dray/manager/queue/queues.py": "from dray.manager.queue import packing\n",
    "dray/manager/queue/packing.py": "",
    "dray/manager/state/state.py": "from dray.manager.queue import Queue\n",
    "dray/manager/turn.py": "def f():\n    from dray.manager.queue import Queue\n",
    "dray/offline/check.py": "if TYPE_CHECKING:\n    from dray.manager.queue import Queue\n",
}
"""A small house that keeps every rule."""


def test_a_house_that_keeps_the_rules_passes():
    assert past_the_face("queue", HOUSE) == asks_itself("queue", HOUSE) == []
    assert {each.name for each in taken_from_outside("queue", HOUSE)} == {"Queue"}
    room = HOUSE["dray/manager/queue/__init__.py"]
    assert face(room) == {"Queue"}
    assert told_askers(room) == askers("queue", HOUSE) == {"state", "turn", "dray.offline"}


@pytest.mark.parametrize(
    "line",
    [
        "from dray.manager.queue.queues import Queue",
        "from dray.manager.queue import queues",
        "from dray.manager import queue",
        "import dray.manager.queue.queues",
        "import dray.manager.queue as entries",
        "from .queue.queues import Queue",
        "from .queue import queues",
        "from . import queue",
        "if TYPE_CHECKING:\n    from dray.manager.queue.queues import Queue",
        "def f():\n    from dray.manager.queue.queues import Queue",
    ],
)
def test_an_import_past_the_face_is_noticed(line):
    assert past_the_face("queue", HOUSE | {"dray/manager/turn.py": line}) == [
        "dray/manager/turn.py"
    ]


@pytest.mark.parametrize(
    "line",
    ["from dray.manager.queue import Queue", "import dray.manager.queue", "from . import Queue"],
)
def test_a_room_that_asks_its_own_face_is_noticed(line):
    path = "dray/manager/queue/packing.py"
    assert asks_itself("queue", HOUSE | {path: line}) == [path]


def test_an_asker_that_the_face_does_not_name_is_noticed():
    more = HOUSE | {"dray/daemon/server.py": "from dray.manager.queue import Queue"}
    assert askers("queue", more) - told_askers(HOUSE["dray/manager/queue/__init__.py"]) == {
        "dray.daemon"
    }
