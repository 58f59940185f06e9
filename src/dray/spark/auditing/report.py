"""The result of an audit: tables, a verdict, and a page for people."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from dray.spark.auditing.page import page_of


class AuditReport(NamedTuple):
    """Tables and verdict of an audit.

    `findings`, `hours` and `streams` are Arrow tables; `messages` and `bytes` count the rows of the
    landed tables and their payloads.
    """

    findings: pa.Table
    hours: pa.Table
    streams: pa.Table

    @property
    def messages(self) -> int:
        """Rows of the landed tables."""
        return sum(self.hours["messages"].to_pylist())

    @property
    def bytes(self) -> int:
        """Bytes of their payloads."""
        return sum(self.hours["bytes"].to_pylist())

    @property
    def clean(self) -> bool:
        """Whether every finding is explained."""
        return all(self.findings["explained"].to_pylist())

    def write(self, directory: str | Path) -> None:
        """Write the tables as Parquet and the page, `audit.html`, into a directory."""
        out = Path(directory)
        out.mkdir(parents=True, exist_ok=True)
        for name in ("findings", "hours", "streams"):
            pq.write_table(getattr(self, name), out / f"{name}.parquet")
        self.write_html(out / "audit.html")

    def write_html(self, path: str | Path) -> None:
        """Write one page that needs no other file."""
        tables = (each.to_pylist() for each in (self.hours, self.streams, self.findings))
        Path(path).write_text(page_of(*tables), encoding="utf-8")
