"""The state tables in the pages are those of the code."""

from __future__ import annotations

import pytest

from tools.draw_tables import MARKED, TABLES, drawn, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_code(page):
    text = page.read_text("utf-8")
    assert text == drawn(text), "run tools/draw_tables.py"


def test_every_table_is_drawn_somewhere():
    named = {mark[1] for page in pages() for mark in MARKED.finditer(page.read_text("utf-8"))}
    assert named == set(TABLES)


def test_a_stale_drawing_is_noticed():
    text = next(each for page in pages() if "| asked |" in (each := page.read_text("utf-8")))
    stale = text.replace("| asked |", "| begged |")
    assert stale != text
    assert drawn(stale) == text
