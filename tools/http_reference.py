"""Writes the tables of the page about HTTP for programs: routes, headers, statuses, bounds.

<!-- routes -->
the table
<!-- end of routes -->
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from dray.console.http import limits as of_connections
from dray.console.statuses import STATUSES
from dray.console.v1 import limits as of_programs
from dray.console.v1.properties import DIRECTIONS, RECEIVED, SENT, Property
from dray.console.v1.routes import ROWS
from dray.net import handshakes as of_handshakes

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "http.md"


def page() -> str:
    """The whole page, with its tables as the code has them."""
    text = PAGE.read_text("utf-8")
    for name, rows in _tables().items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        table = begin + "\n" + "\n".join(_lines(*rows)) + "\n\n" + end
        pattern = re.escape(begin) + ".*?" + re.escape(end)
        found = re.search(pattern, text, flags=re.DOTALL)
        assert found is not None, f"{PAGE} has no place for the table of {name}"
        text = text[: found.start()] + table + text[found.end() :]
    return text


def _tables() -> dict[str, list[tuple[str, ...]]]:
    """Each table, its heads first."""
    of_answer = "of the answer to a receive only"
    return {
        "routes": [
            ("method", "path", "answers", ""),
            *((f"`{e.method}`", f"`{e.path}`", _joined(e.answers), e.help) for e in ROWS),
        ],
        "sent": [
            ("header", "form", "of a request to send, and of the answer to a receive"),
            *_headers(SENT),
        ],
        "received": [("header", "form", of_answer), *_headers(RECEIVED)],
        "directions": [
            ("header", "form", "about the request"),
            *((f"`{name}`", form, text) for name, form, text in DIRECTIONS),
        ],
        "statuses": [("status", "codes"), *_statuses()],
        "bounds": [("bound", "value", "reason"), *_bounds()],
    }


def _lines(heads: tuple[str, ...], *rows: tuple[str, ...]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _joined(statuses: Iterable[int]) -> str:
    return ", ".join(map(str, statuses))


def _headers(properties: Iterable[Property]) -> Iterator[tuple[str, ...]]:
    return ((f"`{each.header}`", each.form, each.help) for each in properties)


def _statuses() -> Iterator[tuple[str, ...]]:
    for status in sorted(set(STATUSES.values())):
        yield str(status), ", ".join(f"`{code}`" for code, own in STATUSES.items() if own == status)


def _bounds() -> Iterator[tuple[str, ...]]:
    """Each bound with its value and the text below it."""
    for limits in (of_programs, of_connections, of_handshakes):
        assert limits.__file__ is not None
        body = ast.parse(Path(limits.__file__).read_text("utf-8")).body
        for each, below in pairwise(body):
            if not (isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)):
                continue
            if not (isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)):
                continue
            reason = " ".join(str(below.value.value).split())
            if reason != "Units, no bounds.":
                yield f"`{each.target.id}`", f"{getattr(limits, each.target.id):,}", reason
