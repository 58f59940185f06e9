"""No circle of files: whoever reads a file reads what it imports, and comes to an end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.house.imports import circles, imports

HOUSE = Path(__file__).parents[2]
SRC = HOUSE / "src"

IN_CIRCLES: dict[str, int] = {}
"""How many files of each folder stand in a circle today. These numbers only fall."""


def test_no_file_imports_itself_by_way_of_others():
    sources = {
        path.relative_to(SRC).as_posix(): path.read_text("utf-8") for path in SRC.rglob("*.py")
    }
    found = circles(imports(sources))
    counted = Counter("/".join(path.split("/")[:2]) for circle in found for path in circle)
    drawn = "\n".join(" <-> ".join(circle) for circle in found)
    assert counted == IN_CIRCLES, f"lower or empty IN_CIRCLES, never raise it; there are:\n{drawn}"


def test_no_file_of_the_worlds_or_lines_imports_itself_by_way_of_others():
    paths = [path for room in ("worlds", "lines") for path in (HOUSE / "tests" / room).glob("*.py")]
    sources = {path.relative_to(HOUSE).as_posix(): path.read_text("utf-8") for path in paths}
    assert circles(imports(sources)) == []


def test_a_circle_is_found_however_its_files_import_each_other():
    sources = {
        "a/__init__.py": "",
        "a/plain.py": "import a.typed",
        "a/typed.py": "if TYPE_CHECKING:\n    from a import late",
        "a/late.py": "def f():\n    from .plain import x",
        "a/outside.py": "from a.plain import y\nfrom a import plain",
    }
    assert circles(imports(sources)) == [["a/late.py", "a/plain.py", "a/typed.py"]]


def test_a_name_that_a_package_hands_on_closes_a_circle():
    sources = {"a/__init__.py": "from a.b import x", "a/b.py": "from a import y"}
    assert circles(imports(sources)) == [["a/__init__.py", "a/b.py"]]


def test_two_circles_that_do_not_reach_back_are_two():
    sources = {
        "a.py": "import b, c",
        "b.py": "import a",
        "c.py": "import d",
        "d.py": "import c",
    }
    assert circles(imports(sources)) == [["a.py", "b.py"], ["c.py", "d.py"]]
