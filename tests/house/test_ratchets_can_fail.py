"""An alarm that cannot ring is no alarm: each ratchet is shown a sample it must refuse.

Beside each bad sample stands a good one, so that a ratchet that refuses everything fails too.
"""

from __future__ import annotations

import pytest

from tests.house import ratchets


def lines_of_function(count: int) -> str:
    return "def long():\n" + "    pass\n" * (count - 1)


SAMPLES = [
    (ratchets.long_module, "a.py", "x = 1\n" * 451, "x = 1\n" * 450),
    (ratchets.long_functions, "a.py", lines_of_function(71), lines_of_function(70)),
    (ratchets.long_functions, "a.py", f"async {lines_of_function(71)}", "async def short(): ..."),
    (ratchets.missing_docstring, "a.py", "x = 1\n", '"""What it is for."""\n'),
    (ratchets.prints, "manager/a.py", "print('hello')", "fingerprint('hello')"),
    (ratchets.clock_and_chance, "manager/a.py", "import time", "import timeit"),
    (ratchets.clock_and_chance, "manager/a.py", "from random import random", "from . import time"),
    (ratchets.clock_and_chance, "model/a.py", "os.urandom(16)", "os.fsync(16)"),
    (ratchets.clock_and_chance, "model/a.py", "datetime.datetime.now(UTC)", "clock.now()"),
    (ratchets.clock_and_chance, "daemon/timekeeper_too.py", "import time", "import os"),
    (
        ratchets.bounds_without_reason,
        "daemon/limits.py",
        'FEW: Final = 4\nMANY: Final = 9\n"""Why nine."""\n',
        'KIB: Final = 1 << 10\nFEW: Final = 4\n"""Why four."""\n',
    ),
    (
        ratchets.full_stops,
        "store/a.py",
        'def f():\n    raise StoreFull(f"no room for {name}.")\n',
        'def f():\n    raise StoreFull(f"no room; {remedy}")\n',
    ),
    (
        ratchets.full_stops,
        "store/a.py",
        'def f():\n    sentence = "it is gone."\n    return errors.StoreError(sentence)\n',
        'def f():\n    sentence = "it is gone."\n    show(sentence)\n',
    ),
    (
        ratchets.capitals,
        "store/a.py",
        'def f():\n    raise StoreMoved(f"The store of {data} was moved")\n',
        'def f():\n    raise StoreMoved(f"the store of {data} was moved")\n',
    ),
    (
        ratchets.capitals,
        "store/a.py",
        'def f():\n    sentence = f"Event {number}: it is gone"\n    raise StoreError(sentence)\n',
        'def f():\n    raise DrayError("Spark\'s checkpoint is gone")\n',
    ),
    (ratchets.machine_paths, "a.md", "see /" + "home/someone/x", "see /" + "run/dray.sock"),
    (ratchets.machine_paths, "a.md", "cd /" + "root/x", "https://host/" + "root/x"),
    (ratchets.unfinished, "a.py", "# TO" + "DO: later", "# to" + "do lists are messages too"),
    (
        ratchets.foreign_hosts,
        "uv.lock",
        'url = "https://mirror.example/a"',
        'url = "https://pypi.org/a"',
    ),
    (
        ratchets.ignores_without_reason,
        "pyproject.toml",
        '[tool.ruff.lint]\nignore = [\n    "D105",\n]\n',
        '[tool.ruff.lint]\nignore = [\n    "D105",  # because\n]\n',
    ),
    (
        ratchets.ignores_without_reason,
        "pyproject.toml",
        '[tool.ruff.lint.per-file-ignores]\n"tests/**" = ["S101"]\n',
        '[project]\nkeywords = ["D105"]\n',
    ),
]


@pytest.mark.parametrize(("ratchet", "path", "bad", "good"), SAMPLES)
def test_ratchet_refuses_the_bad_sample_and_only_that(ratchet, path, bad, good):
    assert list(ratchet(path, bad))
    assert not list(ratchet(path, good))


@pytest.mark.parametrize("path", ["store/utils.py", "helpers/disk.py", "wire/frame_utils.py"])
def test_forbidden_name_is_refused(path):
    assert list(ratchets.forbidden_name(path, ""))


@pytest.mark.parametrize("path", ["store/disk.py", "__init__.py", "model/database.py"])
def test_speaking_name_is_accepted(path):
    assert not list(ratchets.forbidden_name(path, ""))


def test_places_with_a_permission_have_it():
    assert not list(ratchets.prints("cli/commands/send.py", "print('sent')"))
    assert not list(ratchets.clock_and_chance("daemon/timekeeper.py", "import time, random"))


class CodedError(Exception):
    code = "coded"


class TwinError(Exception):
    code = "coded"


class InheritingError(CodedError):
    pass


def test_error_with_its_own_code_is_accepted():
    assert not list(ratchets.weak_errors([CodedError], {"CodedError"}))


@pytest.mark.parametrize(
    ("classes", "exported"),
    [
        ([CodedError, TwinError], {"CodedError", "TwinError"}),
        ([CodedError, InheritingError], {"CodedError", "InheritingError"}),
        ([CodedError], set()),
    ],
)
def test_weak_error_is_refused(classes, exported):
    assert len(list(ratchets.weak_errors(classes, exported))) == 1


def test_package_outside_its_fence_is_refused():
    assert list(ratchets.unfenced({"transfer"}, {"transfer", "wire"}, {"wire"}))
    assert not list(ratchets.unfenced({"wire", "cli"}, {"transfer", "wire"}, {"wire"}))


def test_a_folder_of_the_manager_with_too_many_modules_is_refused():
    full = [f"manager/peers/m{n}.py" for n in range(12)] + ["manager/peers/__init__.py"]
    assert not list(ratchets.crowded_rooms(full))
    assert list(ratchets.crowded_rooms([*full, "manager/peers/one_more.py"]))


def test_a_test_that_reaches_into_a_manager_is_refused():
    inside = "state = driver.manager." + "_context.state"
    assert list(ratchets.reaches_into_a_manager("tests/unit/test_a.py", inside))
    look = "state = look_into(driver.manager).state"
    assert not list(ratchets.reaches_into_a_manager("tests/unit/test_a.py", look))
