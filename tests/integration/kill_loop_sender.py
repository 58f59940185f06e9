"""A sender that may be killed at any moment.

    python -m tests.integration.kill_loop_sender URL QUEUES JOURNAL STOP

It sends numbers, a few in each transaction, and now and then a large message in the same
transaction. Before a commit it writes down what it is about to commit and under which transaction
id; when it starts again it asks what became of the last one. It ends once the file STOP is there.
"""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import dray
from dray.cli.doubt import connect_again
from tests.integration.kill_loop_journal import Journal

NUMBERS_PER_BATCH = 5
LARGE_EVERY = 20
LARGE_BYTES_MAX = 1_200_000
FRAGMENT_BYTES = 200_000
BACKLOG_MAX = 1_000
PATIENCE_S = 100.0


def large_body(batch):
    """The body of the large message of a batch: the same whenever it is made."""
    chance = random.Random(batch)
    return chance.randbytes(chance.randrange(LARGE_BYTES_MAX))


class Sender:
    """Sends batch after batch, each exactly once."""

    def __init__(self, url, queues, journal):
        self.url, self.queues, self.journal = url, queues, journal
        self.manager = self.connect()

    def connect(self):
        return connect_again(lambda: dray.connect(self.url), PATIENCE_S)

    def run(self, stop):
        undecided, done = self.journal.undecided(), self.journal.decided()
        batch = len(done)
        if undecided is not None:
            self.decide(undecided["id"])
            batch = len(self.journal.decided())
        while not stop.exists():
            self.send_exactly_once(batch)
            batch += 1
            if batch % LARGE_EVERY == 0:
                self.wait_for_room()

    def send_exactly_once(self, batch):
        while True:
            try:
                with self.manager.transaction() as transaction:
                    self.send(batch, transaction)
                    self.journal.begin(transaction.id, batch)
                self.journal.end(transaction.id, committed=True)
                return
            except dray.InDoubt as doubt:
                if self.decide(doubt.transaction_id):
                    return
            except (dray.ConnectionLost, dray.TransactionAborted):
                undecided = self.journal.undecided()
                if undecided is not None:
                    self.journal.end(undecided["id"], committed=False)
            self.manager.close()
            self.manager = self.connect()

    def send(self, batch, transaction):
        numbers = self.manager.queue(f"{self.queues}/numbers")
        first = batch * NUMBERS_PER_BATCH
        for number in range(first, first + NUMBERS_PER_BATCH):
            numbers.send(str(number).encode(), transaction=transaction)
        if batch % LARGE_EVERY == 0:
            large = dray.LargeMessageQueue(
                self.manager.queue(f"{self.queues}/large"), fragment_size=FRAGMENT_BYTES
            )
            large.send(large_body(batch), label=str(batch), transaction=transaction)

    def decide(self, transaction_id):
        """Find out whether a commit happened, and write it down."""
        while True:
            try:
                status = self.manager.outcome(transaction_id)
            except dray.ConnectionLost:
                self.manager.close()
                self.manager = self.connect()
                continue
            if status is not dray.TransactionStatus.PENDING:
                committed = status is dray.TransactionStatus.COMMITTED
                self.journal.end(transaction_id, committed=committed)
                return committed

    def wait_for_room(self):
        """Let the other side catch up, so that the test is about traffic and not about piles."""
        while True:
            try:
                queues = self.manager.queues()
            except dray.ConnectionLost:
                self.manager.close()
                self.manager = self.connect()
                continue
            if sum(queue.message_count for queue in queues) < BACKLOG_MAX:
                return
            time.sleep(0.02)


if __name__ == "__main__":
    url, queues, journal, stop = sys.argv[1:]
    Sender(url, queues, Journal(Path(journal))).run(Path(stop))
