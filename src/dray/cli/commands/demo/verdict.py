"""Whether what was promised holds: each landed file against its origin, each order checked.

Nothing is taken from the landing's own summary. The facts are the sender's record of what it sent,
the table of what was landed, and the files; each is read here again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.cli.commands.demo.loss import Hole, ranges
from dray.cli.commands.demo.sending import SentFile
from dray.cli.commands.demo.spark_job import AuditTold
from dray.large.digests import SHA256, hashed_file
from dray.model.message import Message
from dray.model.words import counted

HASHING_THREADS = 2
Row = dict[str, Any]


@dataclass
class DemoVerdict:
    """The findings. Holds if nothing is wrong and the holes are exactly the expected ones."""

    files: int = 0
    bytes: int = 0
    identical: int = 0
    duplicates: int = 0
    out_of_order: int = 0
    results: int = 0
    """Rows of the chain that are right."""
    audited: int = 0
    """Rows of the table that the audit checked."""
    explained: list[str] = field(default_factory=list)
    """Findings of the audit that are in order, such as a hole that the table names."""
    holes: list[Hole] = field(default_factory=list)
    expected_holes: list[Hole] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether all of it is as promised."""
        return not self.wrong

    def complain(self, sentence: str) -> None:
        """Note what is not as promised."""
        self.wrong.append(sentence)


def judge(
    sent: Sequence[SentFile],
    expected_holes: Sequence[Hole],
    rows: Sequence[Row],
    *,
    out: Path,
    checked: Callable[[int], None],
) -> DemoVerdict:
    """Compare what was sent with the table's `rows` and the files below `out`.

    `checked` is told of the bytes compared so far.
    """
    landed = [row for row in rows if row["state"] == "landed"]
    verdict = DemoVerdict(files=len(landed), bytes=sum(row["size"] for row in landed))
    places = {file.sequence_id: index for index, file in enumerate(sent)}
    verdict.expected_holes = sorted(expected_holes, key=lambda hole: places[hole.sequence_id])
    verdict.holes = [_hole(row) for row in rows if row["state"] == "hole"]
    _judge_presence(verdict, sent, landed)
    _judge_order(verdict, sent, landed)
    _judge_holes(verdict, rows)
    _judge_contents(verdict, sent, landed, out=out, checked=checked)
    return verdict


def judge_audit(verdict: DemoVerdict, told: AuditTold, rows: int) -> None:
    """Take over what the audit found; each finding without an explanation is wrong."""
    verdict.audited, verdict.explained = told.rows, list(told.explained)
    for sentence in told.wrong:
        verdict.complain(f"the audit found {sentence}")
    if told.rows != rows:
        verdict.complain(f"the audit saw {counted(told.rows, 'row')}, not {rows}")


def read_rows(table: Path) -> list[Row]:
    """All rows of the table of what was landed, in the order of the queue."""
    from pyarrow import dataset

    paths = [str(path) for path in sorted(table.glob("*.parquet"))]
    rows: list[Row] = dataset.dataset(paths).to_table().to_pylist() if paths else []
    return sorted(rows, key=lambda row: row["first_lookup_id"])


def digest_of(path: Path, kind: str = SHA256) -> str:
    """The digest of a whole file, in hexadecimal."""
    with path.open("rb", buffering=0) as file:
        return hashed_file(file, kind).hexdigest()


def _judge_presence(verdict: DemoVerdict, sent: Sequence[SentFile], landed: Sequence[Row]) -> None:
    """Everything once: more is a duplicate, less is missing."""
    known = {file.sequence_id for file in sent}
    lost = {hole.sequence_id for hole in verdict.expected_holes}
    times = Counter(row["sequence_id"] for row in landed)
    unknown = sum(count for sequence_id, count in times.items() if sequence_id not in known)
    verdict.duplicates = unknown + sum(count - 1 for count in times.values())
    if verdict.duplicates:
        verdict.complain(f"{counted(verdict.duplicates, 'file')} came more than once")
    absent = [file for file in sent if file.sequence_id not in times.keys() | lost]
    for file in absent:
        verdict.complain(f"{file.origin.label} was sent and is not there")
    for sequence_id in lost & times.keys():
        verdict.complain(f"{sequence_id} landed although fragments of it were dropped")


def _judge_order(verdict: DemoVerdict, sent: Sequence[SentFile], landed: Sequence[Row]) -> None:
    """In the order of the queue the files stand as they were sent, whole transactions together."""
    places = {file.sequence_id: index for index, file in enumerate(sent)}
    marks = {file.sequence_id: (file.transaction_id, file.position + 1) for file in sent}
    previous = -1
    for row in landed:
        place = places.get(row["sequence_id"])
        if place is None:
            continue
        mark = (row["transaction_id"], row["position_in_transaction"])
        if place < previous or mark != marks[row["sequence_id"]]:
            verdict.out_of_order += 1
        previous = place
    if verdict.out_of_order:
        verdict.complain(f"out of order: {counted(verdict.out_of_order, 'file')}")


def _judge_holes(verdict: DemoVerdict, rows: Sequence[Row]) -> None:
    """Exactly the fragments that were dropped are reported, under their names."""
    reported = {hole.sequence_id: hole for hole in verdict.holes}
    expected = {hole.sequence_id: hole for hole in verdict.expected_holes}
    for sequence_id in sorted(reported.keys() | expected.keys()):
        said, dropped = reported.get(sequence_id), expected.get(sequence_id)
        if said is None and dropped is not None:
            verdict.complain(f"the hole in {dropped.label} ({dropped.text}) was not reported")
        elif dropped is None and said is not None:
            verdict.complain(f"a hole in {said.label} ({said.text}) was reported that is none")
        elif said != dropped and said is not None and dropped is not None:
            verdict.complain(
                f"the hole in {dropped.label} was reported as {said.text}, not {dropped.text}"
            )
    if len(reported) != sum(row["state"] == "hole" for row in rows):
        verdict.complain("a hole was reported more than once")


def _judge_contents(
    verdict: DemoVerdict,
    sent: Sequence[SentFile],
    landed: Sequence[Row],
    *,
    out: Path,
    checked: Callable[[int], None],
) -> None:
    """Each landed file has the SHA-256 of its origin, and the digest that its row names."""
    origins = {file.sequence_id: file.origin for file in sent}
    pairs = [(origins[row["sequence_id"]], row) for row in landed if row["sequence_id"] in origins]
    done = 0
    with ThreadPoolExecutor(HASHING_THREADS) as pool:
        before = pool.map(lambda pair: digest_of(pair[0].path), pairs)
        after = pool.map(lambda pair: digest_of(_payload(out, pair[1])), pairs)
        named = pool.map(
            lambda pair: digest_of(_payload(out, pair[1]), pair[1]["digest_kind"]), pairs
        )
        for (origin, row), theirs, ours, digest in zip(pairs, before, after, named, strict=True):
            same = theirs == ours and row["size"] == origin.size and row["label"] == origin.label
            if same and row["digest"] == digest:
                verdict.identical += 1
            else:
                verdict.complain(f"{_payload(out, row)} differs from {origin.path}")
            done += origin.size
            checked(done)


def _payload(out: Path, row: Row) -> Path:
    name: str = row["payload"]
    return out / "payload" / name


def _hole(row: Row) -> Hole:
    return Hole(row["sequence_id"], row["label"], _numbers(row["missing"]))


def _numbers(missing: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Read "3-5" and "7"; a missing header or trailer, which the demo never drops, is number 0."""
    found: set[int] = set()
    for text in missing:
        first, _, last = text.partition("-")
        if first.isdecimal():
            found.update(range(int(first), int(last or first) + 1))
        else:
            found.add(0)
    return ranges(found)


def judge_chain(
    verdict: DemoVerdict,
    sent: Sequence[SentFile],
    holes: Iterable[Hole],
    results: Sequence[Message],
) -> None:
    """Compare each message of the results queue with the origin of its file, read again."""
    lost = {hole.sequence_id for hole in holes}
    wanted = {
        file.sequence_id: (file.origin.label, file.origin.size, digest_of(file.origin.path))
        for file in sent
        if file.sequence_id not in lost
    }
    counts: Counter[str] = Counter()
    for message in results:
        told = json.loads(bytes(message.body))
        of = message.correlation_id or ""
        counts[of] += 1
        if wanted.get(of) == (message.label, told["size"], told["sha256"]):
            verdict.results += 1
        else:
            verdict.complain(f"the chain has a wrong row about {message.label!r} ({of})")
    for sequence_id, (label, _, _) in wanted.items():
        if counts[sequence_id] != 1:
            verdict.complain(f"the chain has {counts[sequence_id]} rows about {label!r}, not one")
    if len({message.transaction_id for message in results}) > 1:
        verdict.complain("the rows of the chain came in more than one transaction")
