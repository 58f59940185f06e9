"""The documentation passes its check, and the check can fail."""

from __future__ import annotations

import pytest

from tools import check_docs


@pytest.fixture
def page(tmp_path):
    return tmp_path / "page.md"


@pytest.mark.parametrize(
    "text",
    [
        "[gone](gone.md)",
        "[gone](#no-such-heading)",
        "# Here\n\n[gone](page.md#there)",
        "[machine](/etc/hostname)",
        "```python\ndef broken(:\n```",
        "- a list\n\n  ```python\n  with open:\n  ```",
        "the code is `daemon/no_such_module.py`",
        "`tests/unit/daemon/test_gone.py`, all of it",
        "`rns.py` is the end of a name and not of a path",
    ],
)
def test_bad_page_is_refused(page, text):
    page.write_text(text)
    assert len(list(check_docs.check(page))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "# Two Words: a `title`!\n\n[here](#two-words-a-title) [page](page.md) [dir](.)",
        "[site](https://example.org/x) [mail](mailto:a@example.org)",
        "```python\nawait sent\nasync with a as b: ...\n```",
        "```text\n[not](a-link) def broken(:\n```",
        "`[not](a-link)`",
        "the code is `daemon/turns.py`, or `src/dray/daemon/turns.py`",
        "```\npython gone.py\n```",
    ],
)
def test_good_page_is_accepted(page, text):
    page.write_text(text)
    assert not list(check_docs.check(page))


def test_complaint_names_the_line(page):
    page.write_text("one\n\n```text\n```\n[gone](gone.md)\n")
    assert list(check_docs.check(page)) == [f"{page}:5: nothing at gone.md"]


def test_documentation_is_whole():
    complaints = [line for page in check_docs.documentation() for line in check_docs.check(page)]
    assert not complaints, "\n".join(complaints)
