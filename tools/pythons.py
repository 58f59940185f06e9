"""Find the Pythons of this machine that Dray promises to run on, and run tests on each.

    python tools/pythons.py --oldest           print the path of the oldest
    python tools/pythons.py [PYTEST ARGUMENT]  run pytest on each, oldest first

Each minor version is tried once, in its oldest patch release, in an environment `.venvs/VERSION`
that the Makefile makes from `uv.lock`. Looked at are PATH and the folders of pyenv and uv.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

HOUSE = Path(__file__).resolve().parent.parent
OLDEST = (3, 11, 0)
INSTALLED = ("~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin")
# What needs no Spark and no minute: the code of every layer, and the bytes of every format.
QUICK = ("-q", "tests/formats", "tests/house", "tests/unit", "tests/contract")
# A virtual environment is no Python of the machine; nor is a release candidate one that we promise.
QUESTION = (
    "import sys; good = sys.prefix == sys.base_prefix and sys.version_info.releaselevel == 'final';"
    " print(*sys.version_info[:3] if good and sys.implementation.name == 'cpython' else ())"
)


class Python(NamedTuple):
    """One interpreter."""

    version: tuple[int, ...]
    path: str

    @property
    def name(self) -> str:
        """Its version as people write it."""
        return ".".join(map(str, self.version))


def main(arguments: list[str]) -> int:
    """Do what the arguments say; the exit status is 1 if a version failed or none was found."""
    found = chosen(interpreters())
    if not found:
        print("dray: no Python 3.11 or later was found; install one", file=sys.stderr)
        return 1
    if arguments == ["--oldest"]:
        print(found[0].path)
        return 0
    results = {each.name: tests_pass(each, arguments or list(QUICK)) for each in found}
    for name, good in results.items():
        print(f"dray: Python {name}: {'good' if good else 'FAILED'}")
    return 0 if all(results.values()) else 1


def chosen(found: Iterable[Python]) -> list[Python]:
    """The oldest of each promised minor version, oldest first."""
    oldest: dict[tuple[int, ...], Python] = {}
    for each in sorted(found, key=lambda python: python.version):
        if each.version >= OLDEST:
            oldest.setdefault(each.version[:2], each)
    return list(oldest.values())


def interpreters() -> Iterator[Python]:
    """Every CPython 3 that this machine has."""
    for path in candidates():
        try:
            asked = [path, "-I", "-c", QUESTION]
            answer = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue  # not a program for this machine, or one that hangs: no Python of ours
        if answer.returncode == 0 and (words := answer.stdout.split()):
            yield Python(tuple(map(int, words)), path)


def candidates() -> list[str]:
    """Files called python3 or python3.N, those of PATH first."""
    folders = [Path(each) for each in os.get_exec_path()]
    for pattern in INSTALLED:
        folders += sorted(Path.home().glob(pattern.removeprefix("~/")))
    files = [
        path
        for folder in folders
        for path in (folder / "python3", *sorted(folder.glob("python3.[0-9]*")))
        if path.suffix[1:].isdigit() or path.name == "python3"
    ]
    return list(dict.fromkeys(str(path) for path in files if os.access(path, os.X_OK)))


def tests_pass(python: Python, arguments: list[str]) -> bool:
    """Make the environment of one version and run pytest in it; what they print is shown."""
    print(f"dray: Python {python.name}, {python.path}", flush=True)
    where = f".venvs/{python.name}"
    # MAKEFLAGS carries what the make around us was told on its command line, ARGS and VENV.
    settings = {name: value for name, value in os.environ.items() if name != "MAKEFLAGS"}
    make = ["make", "-s", f"VENV={where}", f"PYTHON={python.path}", f"{where}/.ready"]
    if subprocess.run(make, cwd=HOUSE, env=settings, check=False).returncode:
        return False
    pytest = [f"{where}/bin/pytest", *arguments]
    return subprocess.run(pytest, cwd=HOUSE, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
