"""`dray check`: verify a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from dray.cli.output import printable
from dray.cli.progress import progress
from dray.cli.settings import Settings, takes_json
from dray.errors import StoreCorrupt
from dray.model.words import counted, human_size

if TYPE_CHECKING:
    from dray.offline.checking_files import CheckReport, Finding


@click.command()
@click.option(
    "--data",
    required=True,
    metavar="DIR",
    help="The data directory; its queue manager must be stopped.",
)
@takes_json
def command(settings: Settings, data: str) -> int:
    """Check every checksum and cross-reference of a data directory; change nothing.

    Exit status 0 means that all is well, 42 that something is damaged.
    """
    from dray.offline.checking import check_store

    with progress("checking", None) as shown:
        report = check_store(data, shown.update)
    settings.tell(report, *_lines(report))
    return 0 if report.clean else StoreCorrupt.exit_status


def _lines(report: CheckReport) -> Iterator[str]:
    for finding in report.findings:
        yield printable(_line(finding))
    damaged, in_doubt = (
        sum(each.severity == severity for each in report.findings)
        for severity in ("damage", "doubt")
    )
    outcome = f"damaged: {damaged}" if damaged else "nothing is damaged"
    if in_doubt:
        outcome = (
            f"{outcome if damaged else 'nothing is damaged for certain'}; in doubt: {in_doubt}"
        )
    counts = (
        counted(count, what)
        for count, what in (
            (report.queues, "queue"),
            (report.messages, "message"),
            (report.heap_files, "message file"),
        )
    )
    size = human_size(report.record_bytes)
    yield f"{report.directory}: {', '.join(counts)} with {size}; {outcome}"


def _line(finding: Finding) -> str:
    parts = [f"{finding.severity}: {finding.file}: {finding.what}"]
    if finding.message_id:
        parts.append(f"message {finding.message_id}")
    if finding.queue:
        at = f" at position {finding.lookup_id}" if finding.lookup_id else ""
        parts.append(f"queue {finding.queue!r}{at}")
    if finding.remedy:
        parts.append(finding.remedy)
    return "; ".join(parts)
