"""Results of the demonstration, as tables for people and as one value for programs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

from dray.cli.commands.demo.sending import SendingReport
from dray.cli.commands.demo.verdict import DemoVerdict
from dray.cli.output import print_table
from dray.model.words import counted, human_size

COMPLAINTS_SHOWN = 20


@dataclass
class Legs:
    """The time that each leg took, and its bytes."""

    sent_bytes: int = 0
    send_s: float = 0.0
    transfer_s: float = 0.0
    landed_bytes: int = 0
    land_s: float = 0.0
    land_moving_s: float = 0.0
    """From the first byte of the landing to its last commit."""
    chain_s: float = 0.0
    audit_s: float = 0.0

    @property
    def each(self) -> list[tuple[str, int, float]]:
        """Name, bytes and seconds of each leg."""
        return [
            ("send", self.sent_bytes, self.send_s),
            ("transfer", self.sent_bytes, self.transfer_s),
            ("chain", self.landed_bytes, self.chain_s),
            ("land", self.landed_bytes, self.land_s),
            ("land, moving", self.landed_bytes, self.land_moving_s),
            ("audit", self.landed_bytes, self.audit_s),
        ]

    @property
    def rates(self) -> dict[str, float]:
        """Bytes a second of each leg."""
        return {name: size / max(seconds, 1e-9) for name, size, seconds in self.each}


@dataclass
class Report:
    """Everything the demonstration has to say."""

    sending: SendingReport = field(default_factory=SendingReport)
    legs: Legs = field(default_factory=Legs)
    verdict: DemoVerdict = field(default_factory=DemoVerdict)
    payloads: Path = Path()
    table: Path = Path()
    work: Path = Path()
    seconds: float = 0.0

    def as_value(self) -> dict[str, object]:
        """For programs."""
        verdict = self.verdict
        return {
            "holds": verdict.holds,
            "sent": len(self.sending.files),
            "transactions": self.sending.transactions,
            "kill": self.sending.kill_story,
            "files": verdict.files,
            "bytes": verdict.bytes,
            "identical": verdict.identical,
            "duplicates": verdict.duplicates,
            "out_of_order": verdict.out_of_order,
            "results": verdict.results,
            "audited": verdict.audited,
            "explained": verdict.explained,
            "holes": [hole._asdict() for hole in verdict.holes],
            "dropped": [hole._asdict() for hole in verdict.expected_holes],
            "wrong": verdict.wrong,
            "legs": asdict(self.legs),
            "rates_bytes_s": self.legs.rates,
            "seconds": self.seconds,
            "payloads": str(self.payloads),
            "table": str(self.table),
        }

    def print(self) -> None:
        """For people."""
        print_table(["leg", "bytes ", "seconds ", "rate ", "what"], self._leg_rows())
        click.echo()
        print_table(["promise", "found ", "expected "], self._promise_rows())
        if self.verdict.holes or self.verdict.expected_holes:
            click.echo()
            self._print_holes()
        click.echo()
        click.echo(f"source manager  {self.sending.kill_story}")
        click.echo(f"landed files    {self.payloads}")
        click.echo(f"landed table    {self.table}")
        for sentence in self.verdict.wrong[:COMPLAINTS_SHOWN]:
            click.echo(f"WRONG           {sentence}")
        more = len(self.verdict.wrong) - COMPLAINTS_SHOWN
        if more > 0:
            click.echo(f"WRONG           and {more} more")
        click.echo(
            f"{'all of it holds' if self.verdict.holds else 'NOT all of it holds'}"
            f" ({self.seconds:.0f} s)"
        )

    def _leg_rows(self) -> list[list[str]]:
        legs, files = self.legs, counted(len(self.sending.files), "file")
        transactions = counted(self.sending.transactions, "transaction")
        what = {
            "send": f"{files} in {transactions}, through a kill",
            "transfer": "from the first byte sent until all had arrived",
            "chain": "each payload read in a Spark job, a row about it sent to the source",
            "land": "Spark, from the start of the landing to its end",
            "land, moving": "the same, from the first byte to the last commit",
            "audit": "each landed message proven from the table and the files",
        }
        rates = legs.rates
        return [
            [leg, human_size(size), f"{seconds:.1f}", f"{rates[leg] / 1e6:.0f} MB/s", what[leg]]
            for leg, size, seconds in legs.each
        ]

    def _promise_rows(self) -> list[list[str]]:
        verdict = self.verdict
        lost = len(verdict.expected_holes)
        whole = str(len(self.sending.files) - lost)
        return [
            ["files landed", str(verdict.files), whole],
            ["same SHA-256 as their origin", str(verdict.identical), whole],
            ["duplicates", str(verdict.duplicates), "0"],
            ["holes", str(len(verdict.holes)), str(lost)],
            ["out of order", str(verdict.out_of_order), "0"],
            ["right rows of the chain", str(verdict.results), whole],
            ["rows audited", str(verdict.audited), str(len(self.sending.files))],
            ["findings of the audit, explained", str(len(verdict.explained)), str(lost)],
        ]

    def _print_holes(self) -> None:
        dropped = {hole.sequence_id: hole.text for hole in self.verdict.expected_holes}
        reported = {hole.sequence_id: hole.text for hole in self.verdict.holes}
        labels = {
            hole.sequence_id: hole.label
            for hole in (*self.verdict.expected_holes, *self.verdict.holes)
        }
        print_table(
            ["hole in", "fragments dropped", "fragments reported", "sequence id"],
            (
                [label, dropped.get(id, "none"), reported.get(id, "none"), id]
                for id, label in labels.items()
            ),
        )
