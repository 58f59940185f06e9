"""Sentences of errors on a page: as code what is code, and nothing of a sender as markup."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dray.console
from dray.console.console import as_sentence, templates

TEMPLATES = Path(dray.console.__file__).parent / "templates"


def test_an_error_is_a_sentence_with_its_end():
    assert as_sentence("nobody answers") == "Nobody answers."
    assert as_sentence("is it there?") == "Is it there?"


@pytest.mark.parametrize(
    "name", ["token:reader may not", "dray+unix:///m.sock did not", "orders: a", "q1 is", "a_b is"]
)
def test_a_name_at_the_beginning_of_a_sentence_stays_as_it_is(name):
    assert as_sentence(name) == f"{name}."


def test_backticks_are_code_and_nothing_is_markup():
    said = as_sentence("run `dray <b>` for 'x<i>'")
    assert said == "Run <code>dray &lt;b&gt;</code> for &#39;x&lt;i&gt;&#39;."


def test_marks_that_turn_the_direction_of_text_are_seen_and_fields_keep_them():
    label = "bill\u202efdp.exe\x07"
    made = templates().from_string("{{ it }}|{{ it|as_sentence }}|{{ it|e }}").render(it=label)
    shown, sentence, field = made.split("|")
    assert shown == "bill\ufffdfdp.exe\ufffd"
    assert sentence == "bill\ufffdfdp.exe\ufffd."
    assert field == label
    harmless = "café \u200f\u05e9\u05dc\u05dd\n👩\u200d🚀"
    assert templates().from_string("{{ it }}").render(it=harmless) == harmless


def test_a_number_of_parts_is_in_the_singular_where_it_is_one():
    shown = "{{ one|counted('part') }}, {{ many|counted('part') }}, {{ one|counted }}"
    made = templates().from_string(shown).render(one=1, many=1000)
    assert made == "1 part, 1,000 parts, 1 message"


def test_no_page_writes_a_plural_behind_a_number_that_may_be_one():
    """The number of parts, messages and the like is written by the filter `counted`."""
    found = [
        f"{each.name}: {line.strip()[:80]}"
        for each in sorted(TEMPLATES.rglob("*.html"))
        for line in each.read_text("utf-8").splitlines()
        if re.search(r"\bcount }} (parts|messages|fragments)\b", line)
    ]
    # One that was sent has three parts at least.
    assert [each.partition(":")[0] for each in found] == ["sent.html"]
