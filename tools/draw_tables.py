"""Draw the state tables of the code into the documentation, between the marks that name them.

    python tools/draw_tables.py

A page says `<!-- table: outgoing -->` where a table begins and `<!-- end of table -->` where it
ends. A test fails while a page differs from what this would write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dray.delivery.tables import (
    CONFIRMATION,
    ENDED_SHORT,
    ENDING,
    GOING,
    INCOMING,
    OUTGOING,
    Judged,
    Row,
)
from dray.manager.transactions.tables import TRANSACTION
from dray.transfer.tables import CONSUMER, PRODUCER, Step

HOUSE = Path(__file__).resolve().parent.parent
EXPLANATION = HOUSE / "docs" / "explanation"
TABLES: dict[str, tuple[Row | Judged | Step, ...]] = {
    "outgoing": OUTGOING,
    "incoming": INCOMING,
    "confirmation": CONFIRMATION,
    "ending": ENDING,
    "going": GOING,
    "ended_short": ENDED_SHORT,
    "transaction": TRANSACTION,
    "producer": PRODUCER,
    "consumer": CONSUMER,
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
    fields = rows[0]._fields
    lines = [f"| {' | '.join(fields)} |", f"|{'---|' * len(fields)}"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([*lines, "", *_diagram(rows)])


def _diagram(rows: Iterable[Row | Judged | Step]) -> list[str]:
    """The ways between states, without those that lead back to where they began."""
    ways: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if isinstance(row, Row | Step) and row.state != row.next:
            ways.setdefault((row.state, row.next), {})[row.event] = None
    if not ways:
        return []
    lines = ["```mermaid", "stateDiagram-v2"]
    for (state, goal), events in ways.items():
        names = ", ".join(event.replace(":", "") for event in events)
        lines.append(f"    {_name(state)} --> {_name(goal)}: {names}")
    return [*lines, "```", ""]


def _name(state: str) -> str:
    return state.replace(" ", "_")


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


if __name__ == "__main__":
    main()
