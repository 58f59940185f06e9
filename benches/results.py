"""Figures with the limit beside them: printed as a table, kept as one JSON line each."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benches.conditions import Conditions


@dataclass(frozen=True)
class Result:
    """One figure: rounds of a thing and, where there is one, of the limit measured beside it."""

    what: str
    unit: str
    rounds: Sequence[float]
    limit: str = ""
    limit_rounds: Sequence[float] = ()
    bar: float | None = None
    """The least ratio to the limit or, without a limit, the greatest figure that will do."""
    note: str = ""
    turned: bool = False
    """The bar is the greatest ratio or, without a limit, the least figure that will do."""

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.rounds)

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' own ratios: each against the limit of its round."""
        if not self.limit_rounds:
            return None
        pairs = zip(self.rounds, self.limit_rounds, strict=True)
        return statistics.median(thing / limit for thing, limit in pairs)

    @property
    def verdict(self) -> str:
        """How it stands to its bar."""
        if self.bar is None:
            return ""
        figure = self.median if self.ratio is None else self.ratio
        is_greatest = (self.ratio is None) != self.turned
        good = figure <= self.bar if is_greatest else figure >= self.bar
        most = "at most" if is_greatest else "at least"
        return f"{'good' if good else 'MISSED'} ({most} {self.bar:,g})"


def print_results(name: str, results: Sequence[Result]) -> None:
    """A table for people."""
    print(f"\n{name}")
    header = ("", "median", "unit", "against", "median", "ratio", "bar", "")
    rows = [header, *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    right = {1, 4, 5}
    for row in rows:
        cells = (
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  " + "  ".join(cells).rstrip())


def append_history(
    folder: Path, name: str, results: Sequence[Result], conditions: Conditions
) -> None:
    """Keep the figures as one line of `folder`/`name`.jsonl."""
    folder.mkdir(exist_ok=True)
    line = {"conditions": asdict(conditions), "results": [_kept(result) for result in results]}
    with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _row(result: Result) -> tuple[str, ...]:
    limit = statistics.median(result.limit_rounds) if result.limit_rounds else None
    return (
        result.what,
        _number(result.median),
        result.unit,
        result.limit,
        "" if limit is None else _number(limit),
        "" if result.ratio is None else f"{result.ratio:.2f}",
        result.verdict,
        result.note,
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _kept(result: Result) -> dict[str, object]:
    return {
        "what": result.what,
        "unit": result.unit,
        "rounds": [round(value, 3) for value in result.rounds],
        "limit": result.limit,
        "limit_rounds": [round(value, 3) for value in result.limit_rounds],
        "ratio": None if result.ratio is None else round(result.ratio, 3),
        "note": result.note,
    }
