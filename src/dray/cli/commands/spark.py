"""`dray spark`: land messages with Spark, as files and a table, compact it, and audit them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.cli.option_types import Seconds, Size
from dray.cli.output import print_json, print_record, printable
from dray.cli.progress import progress
from dray.cli.settings import CommandGroup, Settings, takes_json, takes_url_and_json
from dray.errors import InvalidConfiguration, StoreCorrupt
from dray.model.words import counted, human_size, size_in_bytes

if TYPE_CHECKING:
    from dray.spark import LandingSummary


_takes_credentials = click.option(
    "--credentials",
    metavar="FILE",
    help="TOML file with ca, cert, key and token_file, which all executors have under this name.",
)


@click.group(cls=CommandGroup)
def command() -> None:
    """Land messages with Spark, compact their table, and audit them."""


@command.command()
@click.argument("queue")
@click.option(
    "--to",
    "out",
    required=True,
    metavar="DIR|URL",
    help="Directory for the payload files and the table, or a URL for the payloads: s3://bucket/x.",
)
@click.option(
    "--state",
    metavar="DIR",
    help="With a URL: directory for the table and the checkpoint.",
)
@click.option(
    "--as",
    "as_",
    type=click.Choice(["auto", "large", "messages"]),
    default="auto",
    show_default=True,
    help="Which messages to land: large ones as files, small ones as rows, or both.",
)
@click.option("--follow", is_flag=True, help="Keep landing new messages until ^C.")
@click.option(
    "--idle",
    type=Seconds(0),
    metavar="S",
    help=("With --follow: stop after S seconds without a message."),
)
@click.option(
    "--batch", type=Size(least=1), help=("Most payload bytes in one micro-batch  [default: 4GiB].")
)
@click.option(
    "--commit-every",
    type=Seconds(0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="With --follow: commit to the table every S seconds, and sooner if --batch is half full.",
)
@click.option(
    "--table",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    help="Kind of the table; always the same for one DIR.",
)
@click.option(
    "--accept-new-queue",
    is_flag=True,
    help="Land a queue that was deleted and created again, from its first message.",
)
@_takes_credentials
@takes_url_and_json
def land(
    settings: Settings,
    /,
    queue: str,
    *,
    out: str,
    follow: bool,
    idle: float | None,
    batch: int | None,
    credentials: str | None,
    **options: Any,  # noqa: ANN401 - the options of `dray.spark.land`
) -> None:
    """Land the messages of QUEUE below DIR: large ones as files, all of them as rows of a table.

    After a crash, run the same command again: it resumes, loses nothing and lands nothing twice.
    """
    require_spark()
    from dray.spark import BYTES_PER_BATCH, Until, find_java
    from dray.spark import land as land_with_spark

    bytes_per_batch = size_in_bytes(BYTES_PER_BATCH if batch is None else batch)
    click.echo(f"Spark runs on {find_java()}", err=True)
    with progress(f"landing {queue}", None) as shown:
        summary = land_with_spark(
            settings.url,
            queue,
            out,
            until=Until(follow=follow, idle_s=idle),
            bytes_per_batch=bytes_per_batch,
            credentials=_named(settings, credentials),
            report=lambda so_far: shown.update(so_far.bytes),
            **options,
        )
    if settings.as_json:
        print_json(summary)
    else:
        _print(summary)


@command.command()
@click.argument("directory", metavar="DIR")
@click.option("--size", type=Size(least=1), help="Size of a joined file  [default: 256MiB].")
@takes_json
def compact(settings: Settings, directory: str, *, size: int | None) -> None:
    """Join the small files of the table below DIR, a directory that `dray spark land` wrote.

    A landing and readers may work meanwhile. After a crash, run the same command again.
    """
    require_spark()
    from dray.spark import FILE_SIZE
    from dray.spark import compact as compact_table

    summary = compact_table(directory, file_size=FILE_SIZE if size is None else size)
    settings.tell_record(
        summary,
        {
            "files": f"{summary.files_before} before, {summary.files_after} now",
            "bytes": (
                f"{human_size(summary.bytes_before)} before, {human_size(summary.bytes_after)} now"
            ),
            "table": str(summary.table_directory),
        },
    )


@command.command()
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--out",
    metavar="DIR",
    help="Write findings, hours and streams as Parquet, and a page, into DIR.",
)
@click.option("--html", metavar="FILE", help="Write the page into FILE.")
@_takes_credentials
@takes_url_and_json
def audit(
    settings: Settings,
    sources: tuple[str, ...],
    *,
    out: str | None,
    html: str | None,
    credentials: str | None,
) -> int:
    """Check that each message landed once, whole and in order.

    SOURCES are directories that a landing wrote, and queues that explain missing messages: a name,
    journal:NAME, journal: or deadletter:, or dray://host:port/NAME. Nothing is taken from a queue.
    Exit status 0 means that every finding is explained, 42 that one is not.
    """
    require_spark()
    from dray.spark import audit as audit_with_spark
    from dray.spark import find_java

    click.echo(f"Spark runs on {find_java()}", err=True)
    given = [
        each if "://" in each or Path(each).is_dir() else (settings.url, each) for each in sources
    ]
    with progress("auditing", None):
        report = audit_with_spark(given, out=out, credentials=_named(settings, credentials))
    if html is not None:
        report.write_html(html)
    findings = report.findings.to_pylist()
    settings.tell(
        {
            "clean": report.clean,
            "messages": report.messages,
            "bytes": report.bytes,
            "findings": findings,
        },
        *map(_finding_line, findings),
        f"{counted(report.messages)}, {human_size(report.bytes)}:"
        f" {'clean' if report.clean else 'not clean'}",
    )
    return 0 if report.clean else StoreCorrupt.exit_status


def _named(settings: Settings, credentials: str | None) -> str | None:
    """The file of credentials; the global options for one connection do not reach executors."""
    if any((settings.ca, settings.cert, settings.key, settings.token_file)):
        raise InvalidConfiguration(
            "--ca, --cert, --key and --token-file are for one connection, and executors of Spark"
            " make their own; name these files in a TOML file (ca, cert, key, token_file), and give"
            " it with --credentials"
        )
    return credentials


def _finding_line(finding: dict[str, Any]) -> str:
    sign = "explained" if finding["explained"] else "FOUND"
    where = finding["queue"] or finding["origin"]
    return printable(f"{sign}  {finding['kind']}  {where}  {finding['detail']}")


def _print(summary: LandingSummary) -> None:
    moving = summary.moving_rate_bytes_s
    print_record(
        {
            "files": str(summary.files),
            "messages": str(summary.messages),
            "bytes": human_size(summary.bytes),
            "rate": f"{human_size(summary.rate_bytes_s)}/s from start to end",
            "moving": f"{human_size(moving)}/s from the first byte to the last commit",
            "duplicates": str(summary.duplicates),
            "out of order": str(summary.out_of_order),
            "taken by others": str(summary.taken),
            "holes": str(len(summary.holes)),
            "payload files": str(summary.payload_directory),
            "table": str(summary.table_directory),
        }
    )
    for hole in summary.holes:
        missing = ", ".join(hole.missing)
        label = printable(hole.label or "no label")
        click.echo(f"hole  {label}: {missing} missing  {hole.sequence_id}")
    for sentence in summary.unreadable:
        click.echo(f"unreadable  {printable(sentence)}")
    for sentence in summary.left:
        click.echo(f"left  {printable(sentence)}")


def require_spark() -> None:
    """Raise `InvalidConfiguration`, with what to do, where the extra is not installed."""
    try:
        import dray.spark  # noqa: F401 - it needs the packages of the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("dray"):
            raise
        raise InvalidConfiguration(
            f"{error.name} is not installed; `pip install 'dray[spark]'` brings Spark"
        ) from error
