"""Every number by which something is cited leads to a page that says what it means."""

import re
from pathlib import Path

import pytest

from dray.model.classes import MessageClass

HOUSE = Path(__file__).resolve().parent.parent.parent
PAGE = HOUSE / "docs/reference/requirements.md"
CLASSES = HOUSE / "docs/reference/message-classes.md"

OBLIGATION = re.compile(r"\bS\d-\d+\b")
REQUIREMENT = re.compile(r"\bR\d{1,3}\b")
SECTIONS = re.compile(r"\b[Ss]emantics\s+(\d+\.\d+(?:(?:,|\s+to|\s+and)\s+\d+\.\d+)*)")


def cited(texts):
    """All numbers in them: obligations, requirements, and sections as `semantics N.N`."""
    for text in texts:
        yield from OBLIGATION.findall(text)
        yield from REQUIREMENT.findall(text)
        for sections in SECTIONS.findall(text):
            yield from (f"semantics {each}" for each in re.findall(r"\d+\.\d+", sections))


def explained(page):
    """All numbers that stand first in a row of a table of the page."""
    for first in re.findall(r"^\| ([^|]+?) \|", page, re.MULTILINE):
        if OBLIGATION.fullmatch(first):
            yield first
        elif between := re.fullmatch(r"R(\d+) to R(\d+)", first):
            yield from (f"R{n}" for n in range(int(between[1]), int(between[2]) + 1))
        elif re.fullmatch(r"\d+\.\d+(, \d+\.\d+)*", first):
            yield from (f"semantics {each}" for each in first.split(", "))


def test_every_number_that_is_cited_is_explained():
    pages = [*HOUSE.glob("*.md"), *(HOUSE / "docs").rglob("*.md")]
    programs = [path for tree in ("src", "tests") for path in (HOUSE / tree).rglob("*.py")]
    texts = [path.read_text("utf-8") for path in [*pages, *programs] if path != Path(__file__)]
    assert set(cited(texts)) <= set(explained(PAGE.read_text("utf-8")))


@pytest.mark.parametrize(
    "unknown", ["S3-99", "R13", "semantics 7.7", "semantics 2.1, 7.7", "semantics 2.1\nand 7.7"]
)
def test_a_number_that_means_nothing_is_noticed(unknown):
    assert not set(cited([unknown])) <= set(explained(PAGE.read_text("utf-8")))


def test_every_requirement_stands_on_the_page_that_is_named_for_it():
    rows = re.findall(r"^\| (R\d+ to R\d+) \|.*\]\((.+?)#", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == 7
    for numbers, named in rows:
        table = (PAGE.parent / named).read_text("utf-8")
        firsts = " ".join(re.findall(r"^\| ([^|]*)\|", table, re.MULTILINE))
        assert set(explained(f"| {numbers} |")) <= set(REQUIREMENT.findall(firsts)), named


def test_every_message_class_stands_on_its_page_with_its_number():
    page = CLASSES.read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| (0x\w{4}) \|", page, re.MULTILINE))
    never_given = dict(re.findall(r"`(\w+)` \((0x\w{4})\)", page))
    numbers = {name: int(number, 16) for name, number in (rows | never_given).items()}
    assert numbers == {each.name: each.value for each in MessageClass}
