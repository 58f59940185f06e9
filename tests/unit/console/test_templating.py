"""Sentences of errors on a page: as code what is code, and nothing of a sender as markup."""

from __future__ import annotations

from dray.console.templating import as_sentence


def test_an_error_is_a_sentence_with_its_end():
    assert as_sentence("nobody answers") == "Nobody answers."
    assert as_sentence("is it there?") == "Is it there?"


def test_backticks_are_code_and_nothing_is_markup():
    said = as_sentence("run `dray <b>` for 'x<i>'")
    assert said == "Run <code>dray &lt;b&gt;</code> for &#39;x&lt;i&gt;&#39;."
