"""A receiver that may be killed at any moment.

    python -m tests.integration.kill_loop_receiver URL JOURNAL

It writes down what it received and in which transaction, and only then commits. When it starts
again it asks what became of the last transaction. It goes on until it is killed.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import dray
from dray.cli.doubt import connect_again
from tests.integration.kill_loop_journal import Journal

AT_ONCE = 50
PATIENCE_S = 100.0


class Receiver:
    """Receives transaction after transaction, each exactly once."""

    def __init__(self, url, journal):
        self.url, self.journal = url, journal
        self.manager = self.connect()

    def connect(self):
        return connect_again(lambda: dray.connect(self.url), PATIENCE_S)

    def run(self):
        undecided = self.journal.undecided()
        if undecided is not None:
            self.decide(undecided["id"])
        while True:
            self.receive_exactly_once(self.numbers)
            self.receive_exactly_once(self.large)

    def receive_exactly_once(self, take):
        try:
            with self.manager.transaction() as transaction:
                taken = take(transaction)
                self.journal.begin(transaction.id, taken)
            self.journal.end(transaction.id, committed=True)
        except dray.ReceiveTimeout:
            return
        except dray.InDoubt as doubt:
            self.decide(doubt.transaction_id)
        except (dray.ConnectionLost, dray.TransactionAborted):
            undecided = self.journal.undecided()
            if undecided is not None:
                self.journal.end(undecided["id"], committed=False)
            self.reconnect()

    def numbers(self, transaction):
        queue = self.manager.queue("numbers")
        messages = queue.receive_many(AT_ONCE, timeout=0.05, transaction=transaction)
        return {"numbers": [int(bytes(message.body)) for message in messages]}

    def large(self, transaction):
        queue = dray.LargeMessageQueue(self.manager.queue("large"))
        with queue.receive(timeout=0, transaction=transaction) as message:
            digest = hashlib.sha256(message.body()).hexdigest()
            return {"large": [[int(message.label), digest]]}

    def decide(self, transaction_id):
        """Find out whether a commit happened, and write it down."""
        while True:
            try:
                status = self.manager.outcome(transaction_id)
            except dray.ConnectionLost:
                self.reconnect()
                continue
            if status is not dray.TransactionStatus.PENDING:
                committed = status is dray.TransactionStatus.COMMITTED
                self.journal.end(transaction_id, committed=committed)
                return

    def reconnect(self):
        self.manager.close()
        self.manager = self.connect()


if __name__ == "__main__":
    url, journal = sys.argv[1:]
    Receiver(url, Journal(Path(journal))).run()
