"""Pages say things the plain way round, and users read no numbers of requirements or decisions."""

import re
from pathlib import Path

import pytest

from tools.check_docs import documentation, without_code

HOUSE = Path(__file__).resolve().parent.parent.parent
# Decisions and measurements are of their time, the list of modules is made of docstrings, and the
# page on style quotes sentences that are wrong.
OTHERS = ("docs/decisions/", "docs/measurements/", "docs/reference/modules.md", "STYLE.md")
BEGINNING = r"(?:^(?:[-*] |\d+\. |\| |#+ )?|(?<=[.:;!] )|(?<=\| ))(?:\*\*)?"
CLAUSE = rf"{BEGINNING}(?:What|Whatever|Who|Whoever|Whose)\b[^?.|\n]*(?:[.|\n]|\Z)"
OF = rf"{BEGINNING}Of (?:a|an|all|each|one|the|those|what|whom)\b[^.,|\n]*,"
TURNED = re.compile(f"{CLAUSE}|{OF}", re.MULTILINE)
"""A sentence whose subject is a clause ("What is no size is wrong usage"), or that begins with its
object ("Of the two, ..."). A question ends with a question mark."""

FOR_USERS = ("README.md", "CHANGELOG.md", "docs/tutorials/", "docs/how-to/", "docs/glossary.md")
REFERENCE = ("api", "cli", "configuration", "errors", "message-classes", "modules", "spark")
NUMBER = re.compile(r"\b(?:S\d-\d+|R\d{1,3}|[Ss]emantics \d+\.\d+)\b|(?:\[|[Dd]ecision )0\d{3}\b")


def turned_round(text):
    """The beginnings of sentences that are turned round, of a page with its lines joined."""
    prose = without_code(text)
    joined = re.sub(r"(?<=[^\n|])\n(?=[^\n|#*-])", " ", prose)
    return [found[0][:60] for found in TURNED.finditer(joined)]


def written_by_hand():
    for page in documentation():
        name = page.relative_to(HOUSE).as_posix()
        if not name.startswith(OTHERS):
            yield name


def for_users():
    yield from (each for each in written_by_hand() if each.startswith(FOR_USERS))
    yield from (f"docs/reference/{each}.md" for each in REFERENCE)


@pytest.mark.parametrize("name", [*written_by_hand()])
def test_a_page_has_no_sentence_that_is_turned_round(name):
    assert turned_round((HOUSE / name).read_text("utf-8")) == []


@pytest.mark.parametrize("name", [*for_users()])
def test_a_page_for_users_has_no_number_of_a_requirement_or_decision(name):
    assert NUMBER.findall((HOUSE / name).read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "What is no size is wrong usage.",
        "It is so. Who receives is not kept waiting.",
        "- Whoever asks gets it.",
        "| a row | What was refused no longer counts |",
        "Of the two files, one is whole.",
        "## What a start does",
        "A line that goes\non. What follows is turned round.",
    ],
)
def test_a_sentence_that_is_turned_round_is_noticed(text):
    assert turned_round(text)


@pytest.mark.parametrize(
    "text",
    [
        "What is a queue?",
        "Nobody knows what it is, or who asks.",
        "`What is this`",
        "```\nWhat is this is code\n```",
        "Of course not.",
        "| state | what to do |",
    ],
)
def test_a_plain_sentence_is_accepted(text):
    assert not turned_round(text)


@pytest.mark.parametrize(
    "text",
    ["it is kept (R61)", "see S2-5", "as semantics 2.3 says", "see [0146](x.md)", "decision 0146"],
)
def test_a_number_of_a_requirement_or_decision_is_noticed(text):
    assert NUMBER.search(text)
