"""Draw the state tables of the code into the documentation, between the marks that name them.

    python tools/draw_tables.py

A page says `<!-- table: outgoing -->` where a table begins and `<!-- end of table -->` where it
ends. A test fails while a page differs from what this would write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from dray.daemon.pacing.checkpoints import CHECKPOINT
from dray.daemon.pacing.passes import PASS
from dray.daemon.pacing.syncs import SYNC
from dray.daemon.turns import SERVICE
from dray.delivery.ahead import AHEAD
from dray.delivery.confirmation import CONFIRMATION
from dray.delivery.incoming import INCOMING, Acceptance
from dray.delivery.outgoing import OUTGOING
from dray.machine import Step, Transition, always, nothing
from dray.manager.queue.arrival_routes import GOING
from dray.manager.queue.truncated_transactions import TRUNCATED
from dray.manager.state.stream_ends import ENDING
from dray.manager.transactions.tables import TRANSACTION
from dray.transfer.consumer import CONSUMER
from dray.transfer.copies import PRODUCER

Line = Transition | Step | Acceptance
HOUSE = Path(__file__).resolve().parent.parent
EXPLANATION = HOUSE / "docs" / "explanation"
TABLES: dict[str, tuple[Line, ...]] = {
    "outgoing": OUTGOING,
    "ahead": AHEAD,
    "incoming": INCOMING,
    "confirmation": CONFIRMATION,
    "ending": ENDING,
    "going": GOING,
    "truncated": TRUNCATED,
    "transaction": TRANSACTION,
    "producer": PRODUCER,
    "consumer": CONSUMER,
    "pass": PASS,
    "sync": SYNC,
    "checkpoint": CHECKPOINT,
    "service": SERVICE,
}
END = "<!-- end of table -->"
MARKED = re.compile(rf"<!-- table: (\w+) -->\n.*?{END}\n", re.DOTALL)


def main() -> None:
    """Write every page that has a table."""
    for page in pages():
        page.write_text(drawn(page.read_text("utf-8")), encoding="utf-8")


def pages() -> list[Path]:
    """The pages with a table."""
    return [page for page in sorted(EXPLANATION.glob("*.md")) if MARKED.search(page.read_text())]


def drawn(text: str) -> str:
    """A page with its tables as the code has them."""
    return MARKED.sub(lambda mark: f"<!-- table: {mark[1]} -->\n{_table(mark[1])}{END}\n", text)


def _table(name: str) -> str:
    rows = TABLES[name]
    lines = _rows(rows[0]._fields, map(_cells, rows))
    if isinstance(rows[0], Transition):
        lines = _rows(("state", *rows[0]._fields[1:]), map(_cells, rows))
    return "\n".join([*lines, "", *_meanings(rows), *_diagram(rows)])


def _rows(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    lines = [" | ".join(head), *(" | ".join(row) for row in rows)]
    lines = [f"| {line} |" for line in lines]
    return [lines[0], f"|{'---|' * (lines[0].count(' | ') + 1)}", *lines[1:]]


def _cells(row: Line) -> list[str]:
    """A line as it is read: what holds always, does nothing or changes nothing stays empty."""
    if isinstance(row, Acceptance):
        return list(map(_cell, row))
    if isinstance(row, Step):
        does = ", ".join(_words(each.__name__) for each in row.does)
        return [row.state, row.event, does, row.next]
    return [
        _states(row),
        row.event.__name__,
        "" if row.when is always else _words(row.when.__name__),
        "" if row.does is nothing else _words(row.does.__name__),
        "" if row.next is None else _words(row.next.name.lower()),
    ]


def _states(row: Transition) -> str:
    if len(row.states) == len(type(row.states[0])):
        return "every"
    return ", ".join(_words(state.name.lower()) for state in row.states)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _meanings(rows: Iterable[Line]) -> list[str]:
    """The conditions and actions of a table, each with the first line of its docstring."""
    found: dict[Callable[..., object], None] = {}
    for column in ("when", "does"):
        for row in rows:
            cell = getattr(row, column, ())
            found.update(dict.fromkeys(cell if isinstance(cell, tuple) else (cell,)))
    found = {each: None for each in found if each not in (always, nothing)}
    if not found:
        return []
    named = (
        (_words(each.__name__), str(each.__doc__).splitlines()[0].removesuffix("."))
        for each in found
    )
    return [*_rows(("name", "meaning"), named), ""]


def _diagram(rows: Iterable[Line]) -> list[str]:
    """The ways between states, without those that lead back to where they began."""
    ways: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        for state, event, goal in _steps(row):
            if state != goal:
                ways.setdefault((state, goal), {})[event] = None
    if not ways:
        return []
    lines = ["```mermaid", "stateDiagram-v2"]
    for (state, goal), events in ways.items():
        names = ", ".join(events)
        lines.append(f"    {_name(state)} --> {_name(goal)}: {names}")
    return [*lines, "```", ""]


def _steps(row: Line) -> list[tuple[str, str, str]]:
    if isinstance(row, Acceptance):
        return []
    if not isinstance(row, Transition):
        return [(row.state, re.split("[,:]", row.event)[0], row.next)]
    return [
        (state.name.lower(), row.event.__name__, (row.next or state).name.lower())
        for state in row.states
    ]


def _name(state: str) -> str:
    return state.replace(" ", "_")


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
