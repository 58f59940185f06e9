"""`dray demo`: the whole path on real files, through a kill, with a verdict.

Two queue managers as processes on loopback; every file of a directory sent as a large message,
several in a transaction, from one through its outgoing queue to the other; the first killed and
started again in the middle; read by a Spark job that sends a row about each to a queue of the
first; landed with Spark; all of it compared with the origins. Exit status 0 only if it holds.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import click

from dray.cli.commands.demo.landing import SparkJob
from dray.cli.commands.demo.loss import Hole, lose, plan
from dray.cli.commands.demo.report import Report
from dray.cli.commands.demo.sending import DemoFile, Sender, SentFile, find_origins, in_transactions
from dray.cli.commands.demo.spark_job import AuditTold, JobOrder
from dray.cli.commands.demo.verdict import judge, judge_audit, judge_chain, read_rows
from dray.cli.commands.spark import require_spark
from dray.cli.output import print_json
from dray.cli.progress import ProgressDisplay, progress
from dray.cli.settings import Settings, takes_json
from dray.errors import DrayError, InvalidConfiguration
from dray.folders.placing import directory
from dray.model.words import counted
from dray.testing.processes import ManagerProcess, interrupted_once

QUEUE = "landing"
RESULTS = "results"
"""The queue of the source manager for the rows of the chain."""
WORK = "demo-out"
NO_ARRIVAL_FOR_S = 60.0
POLL_EVERY_S = 0.02


@click.command()
@click.option(
    "--files",
    metavar="DIR",
    help=("Directory of files to send  [default: the jars inside pyspark]."),
)
@click.option(
    "--lossy",
    is_flag=True,
    help=("Drop fragments on purpose and check that the holes are reported."),
)
@click.option(
    "--work", metavar="DIR", help=("Working directory  [default: a new one in ./demo-out].")
)
@click.option("--keep", is_flag=True, help="Keep the data directories of the queue managers too.")
@takes_json
def command(
    settings: Settings, *, files: str | None, lossy: bool, work: str | None, keep: bool
) -> int:
    """Move real files between two queue managers, through a kill, into Spark."""
    require_spark()
    from dray.spark import find_java

    origins = find_origins(_default_files() if files is None else Path(files))
    # Before anything else: without a Java there would be nothing to land with.
    click.echo(f"Spark will run on {find_java()}", err=True)
    place = _fresh_directory(work)
    click.echo(f"working in {place}", err=True)
    with interrupted_once():
        report = Demonstration(place, lossy=lossy).run(origins)
    if settings.as_json:
        print_json(report.as_value())
    else:
        report.print()
    if report.verdict.holds and not keep:
        for name in ("source", "destination"):
            shutil.rmtree(place / name)
    return 0 if report.verdict.holds else DrayError.exit_status


class Demonstration:
    """One run in one directory."""

    def __init__(self, work: Path, *, lossy: bool) -> None:
        """Work in `work`; drop fragments if `lossy`."""
        self._work, self._lossy = work, lossy
        self._source = ManagerProcess("source", work)
        self._destination = ManagerProcess("destination", work)
        self._report = Report(work=work, payloads=work / "landed" / "payload")
        self._report.table = work / "landed" / "table"

    def run(self, origins: Sequence[DemoFile]) -> Report:
        """Start Spark, send, transfer, drop if asked to, land, audit, compare."""
        began = time.monotonic()
        with self._destination, self._source, SparkJob(self._work) as spark:
            sent = self._send_and_transfer(origins)
            holes = self._drop(sent) if self._lossy else []
            audited = self._land(spark, sent, holes)
            with self._source.connect() as manager:
                results = list(manager.queue(RESULTS).messages())
        self._compare(sent, holes)
        judge_chain(self._report.verdict, sent, holes, results)
        judge_audit(self._report.verdict, audited, len(sent))
        self._report.seconds = time.monotonic() - began
        return self._report

    def _send_and_transfer(self, origins: Sequence[DemoFile]) -> list[SentFile]:
        with self._destination.connect() as manager:
            manager.create_queue(QUEUE)
        with self._source.connect() as manager:
            manager.create_queue(RESULTS)
        total = sum(origin.size for origin in origins)
        began = time.monotonic()
        with progress(f"sending {counted(len(origins), 'file')}", total) as shown:
            sender = Sender(self._source, f"{self._destination.url}/{QUEUE}", shown)
            self._report.sending = sender.send_all(list(in_transactions(origins)))
        sent = self._report.sending.files
        with progress("arriving", total) as shown:
            self._await_arrival(sent, shown)
        legs = self._report.legs
        legs.sent_bytes, legs.send_s = total, self._report.sending.seconds
        legs.transfer_s = time.monotonic() - began
        return sent

    def _await_arrival(self, sent: Sequence[SentFile], shown: ProgressDisplay) -> None:
        """Wait until header, fragments and trailer of every file are in the destination queue."""
        expected = sum(file.origin.fragment_count + 2 for file in sent)
        with self._destination.connect() as manager:
            info = manager.queue(QUEUE).info()
            changed_at = time.monotonic()
            while info.message_count < expected:
                before, info = info, manager.queue(QUEUE).info()
                shown.update(info.byte_count)
                if info.message_count != before.message_count:
                    changed_at = time.monotonic()
                elif time.monotonic() - changed_at > NO_ARRIVAL_FOR_S:
                    raise DrayError(
                        f"{info.message_count} of {counted(expected)} arrived and then none for"
                        f" {NO_ARRIVAL_FOR_S:.0f} s; see the logs in {self._work}"
                    )
                time.sleep(POLL_EVERY_S)

    def _drop(self, sent: Sequence[SentFile]) -> list[Hole]:
        victims = plan(sent)
        if not victims:
            raise InvalidConfiguration(
                "there is no fragment to drop, because all files are empty; name other files with"
                " --files"
            )
        with self._destination.connect() as manager:
            return lose(manager, QUEUE, victims)

    def _land(self, spark: SparkJob, sent: Sequence[SentFile], holes: Sequence[Hole]) -> AuditTold:
        lost = {hole.sequence_id for hole in holes}
        legs = self._report.legs
        legs.landed_bytes = sum(file.origin.size for file in sent if file.sequence_id not in lost)
        out = self._work / "landed"
        order = JobOrder(self._destination.url, QUEUE, str(out), self._source.url, RESULTS)
        with progress("reading with Spark", legs.landed_bytes) as shown:

            def follow(done: int) -> None:
                if done:
                    shown.describe("landing with Spark")
                shown.update(done)

            times, legs.land_moving_s = spark.land(order, follow)
        legs.chain_s, legs.land_s, legs.audit_s = times.chain_s, times.land_s, times.audit_s
        return times.audit

    def _compare(self, sent: Sequence[SentFile], holes: Sequence[Hole]) -> None:
        rows = read_rows(self._report.table)
        with progress("comparing SHA-256", self._report.legs.landed_bytes) as shown:
            out = self._work / "landed"
            self._report.verdict = judge(sent, holes, rows, out=out, checked=shown.update)


def _default_files() -> Path:
    """The jar files inside the installed pyspark: real files, hundreds of them."""
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _fresh_directory(work: str | None) -> Path:
    if work is None:
        return Path(tempfile.mkdtemp(prefix="run-", dir=directory(WORK))).resolve()
    place = directory(work).resolve()
    if any(place.iterdir()):
        raise InvalidConfiguration(
            f"{place} is not empty; name an empty or new directory with --work"
        )
    return place
