"""Sentences of errors on a page: as code what is code, and nothing of a sender as markup."""

from __future__ import annotations

from dray.console.console import as_sentence, templates


def test_an_error_is_a_sentence_with_its_end():
    assert as_sentence("nobody answers") == "Nobody answers."
    assert as_sentence("is it there?") == "Is it there?"


def test_backticks_are_code_and_nothing_is_markup():
    said = as_sentence("run `dray <b>` for 'x<i>'")
    assert said == "Run <code>dray &lt;b&gt;</code> for &#39;x&lt;i&gt;&#39;."


def test_marks_that_turn_the_direction_of_text_are_seen_and_fields_keep_them():
    label = "bill\u202efdp.exe\x07"
    made = templates().from_string("{{ it }}|{{ it|as_sentence }}|{{ it|e }}").render(it=label)
    shown, sentence, field = made.split("|")
    assert shown == "bill\ufffdfdp.exe\ufffd"
    assert sentence == "Bill\ufffdfdp.exe\ufffd."
    assert field == label
    harmless = "café \u200f\u05e9\u05dc\u05dd\n👩\u200d🚀"
    assert templates().from_string("{{ it }}").render(it=harmless) == harmless
