"""Whether the rows of the chain are right: one for each whole file, with its size and SHA-256."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from dray.cli.commands.demo.loss import Hole
from dray.cli.commands.demo.sending import SentFile
from dray.cli.commands.demo.verdict import DemoVerdict
from dray.model.message import Message


def judge_chain(
    verdict: DemoVerdict,
    sent: Sequence[SentFile],
    holes: Iterable[Hole],
    results: Sequence[Message],
) -> None:
    """Compare each message of the results queue with the origin of its file, read again."""
    lost = {hole.sequence_id for hole in holes}
    wanted = {
        file.sequence_id: (file.origin.label, file.origin.size, _sha256(file.origin.path))
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


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
