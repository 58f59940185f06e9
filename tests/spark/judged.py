"""Messages that are sent for a judge: what was sent is written down, and judged afterwards."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from pathlib import Path

import dray

JUDGE = Path(__file__).with_name("judge.py")


def judge_ledger(ledger: Path, out: Path) -> str:
    """The complaints of the judge."""
    judged = subprocess.run(
        [sys.executable, str(JUDGE), str(ledger), str(out)],
        capture_output=True, check=False, text=True,
    )  # fmt: skip
    return judged.stdout.strip() + judged.stderr


def judge_bodies(sent: dict[str, bytes], out: Path, *, large: bool = True) -> str:
    """The complaints about messages of one kind, each sent by itself: bodies by id, in order."""
    ledger = out.with_name("ledger")
    with ledger.open("w") as file:
        for number, (identity, body) in enumerate(sent.items()):
            told = {"id": identity, "sha256": hashlib.sha256(body).hexdigest(), "size": len(body)}
            file.write(json.dumps(told | {"large": large, "transaction": number}) + "\n")
    return judge_ledger(ledger, out)


class JudgedQueue:
    """A queue that gets large and small messages, several to a transaction."""

    def __init__(self, manager: dray.Manager, name: str, ledger: Path, seed: int) -> None:
        self.manager = manager
        self.queue = manager.queue(name, raw=True)
        self.large = dray.LargeMessageQueue(manager.queue(name), fragment_size=10_000)
        self.ledger = ledger
        self.chance = random.Random(seed)
        self.transactions = 0

    def send(self, transactions: int) -> None:
        """Send so many transactions, and write down what is in them."""
        for _ in range(transactions):
            self.transactions += 1
            noted, small = [], []
            with self.manager.transaction() as transaction:
                for _ in range(self.chance.randrange(1, 5)):
                    body = self.chance.randbytes(self.chance.choice([0, 100, 9_000, 60_000]))
                    if self.chance.random() < 0.5:
                        identity = self.large.send(body, transaction=transaction)
                        noted.append((identity, body, True))
                    else:
                        identity = self.queue.send(body, transaction=transaction)
                        small.append((identity, body, False))
            with self.ledger.open("a") as file:
                for identity, body, large in [*noted, *small]:
                    digest = hashlib.sha256(body).hexdigest()
                    told = {"id": identity, "sha256": digest, "size": len(body)}
                    told |= {"large": large, "transaction": self.transactions}
                    file.write(json.dumps(told) + "\n")

    def judge(self, out: Path) -> str:
        """The judge's complaints; a message that is still in the queue is one, too."""
        said = judge_ledger(self.ledger, out)
        left = self.queue.info().message_count
        return said + (f"{left} messages left" if left else "")
