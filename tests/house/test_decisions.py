"""Every decision stands in the index with its status; a superseded one names its successor."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parent.parent.parent / "docs/decisions"
ROW = re.compile(r"^\| \[(\d{4})\]\(([^)]+)\) \| (.+?) \| (.+?) \|$", re.MULTILINE)
STATUS = re.compile(r"accepted|(?:superseded|amended) by \[(\d{4})\]\(([^)]+)\)")


def complaints(index, files):
    """What is wrong with an index of decisions, given the text of each by its file name."""
    rows = ROW.findall(index)
    named = [name for _, name, _, _ in rows]
    for name in sorted(set(files) - set(named)):
        yield f"{name} is not in docs/decisions/README.md: give it a row with a status there"
    for name in sorted({each for each in named if named.count(each) > 1}):
        yield f"{name} stands twice"
    for number, name, _, status in rows:
        found = STATUS.fullmatch(status)
        if name not in files or not name.startswith(number):
            yield f"{number} leads to {name}, which is not its file"
        elif not found:
            yield f"{number} has the status {status!r}"
        elif found[1] and (found[2] not in files or not found[2].startswith(found[1])):
            yield f"{number} names {found[2]}, which is not there"
        elif found[1] and f"({found[2]})" not in files[name]:
            yield f"{number} does not say itself that {found[1]} came after it"


def test_every_decision_stands_in_the_index_with_its_status():
    files = {path.name: path.read_text("utf-8") for path in DECISIONS.glob("0*.md")}
    index = (DECISIONS / "README.md").read_text("utf-8")
    assert list(complaints(index, files)) == []


FILES = {"0001-old.md": "see [0002](0002-new.md)", "0002-new.md": "text"}
GOOD = """
| [0001](0001-old.md) | It was so. | superseded by [0002](0002-new.md) |
| [0002](0002-new.md) | It is so. | accepted |
"""


def test_a_good_index_is_accepted():
    assert list(complaints(GOOD, FILES)) == []


@pytest.mark.parametrize(
    ("index", "files"),
    [
        (GOOD, FILES | {"0003-other.md": ""}),
        (GOOD + GOOD.splitlines()[2], FILES),
        (GOOD.replace("0002-new.md) |", "0009-gone.md) |"), FILES),
        (GOOD.replace("superseded by [0002](0002-new.md)", "superseded"), FILES),
        (GOOD.replace("accepted", ""), FILES),
        (GOOD, FILES | {"0001-old.md": "says nothing of another one"}),
    ],
)
def test_an_index_that_leaves_something_out_is_noticed(index, files):
    assert list(complaints(index, files))
