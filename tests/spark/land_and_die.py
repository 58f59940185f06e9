"""A landing that kills its own driver with SIGKILL at a chosen point; run as a program.

land_and_die.py URL OUT POINT [large|messages [STORE]], where POINT is one of

    pulling    an executor has pulled some payloads of a batch
    piece      an executor has written a piece of the long one
    completing an executor has uploaded an object of STORE and not completed the upload
    completed  an executor has completed it
    landed     the table has a batch, the queue has not been settled
    settled    the queue is settled, Spark's log does not have the batch
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from dray.spark import spark_session
from dray.spark.landing.landing import Landing
from dray.spark.landing.objects import ObjectPlacement, StorePayloads
from dray.spark.landing.puller import ManagerPuller
from dray.spark.landing.settler import ManagerSettler
from dray.spark.source.options import RANGES


class DyingPuller(ManagerPuller):
    """Kills the driver when it comes to a certain message."""

    def __init__(self, driver, label):
        super().__init__()
        self.driver = driver
        self.label = label

    def pull(self, row, target):
        if row["label"] == self.label:
            os.kill(self.driver, signal.SIGKILL)
        return super().pull(row, target)

    def pull_piece(self, row, piece, target):
        super().pull_piece(row, piece, target)
        if self.label == "long":
            os.kill(self.driver, signal.SIGKILL)

    def messages(self, row):
        for batch in super().messages(row):
            if row["first_lookup_id"] > 1:
                os.kill(self.driver, signal.SIGKILL)
            yield batch


class DyingSettler(ManagerSettler):
    """Kills the driver before or after the second settling."""

    def __init__(self, point):
        super().__init__()
        self.point = point
        self.count = 0

    def settle(self, key, reached):
        self.count += 1
        if self.point == "landed" and self.count == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        settled = super().settle(key, reached)
        if self.point == "settled" and self.count == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return settled


class DyingPlacement(ObjectPlacement):
    """Kills the driver and this executor around the completion of the third object."""

    def complete(self, opened):
        payloads = self._payloads
        if payloads.point == "completing" and "-body 6" in self._name:
            self.die(payloads.driver)
        super().complete(opened)
        if payloads.point == "completed" and "-body 6" in self._name:
            self.die(payloads.driver)

    def die(self, driver):
        os.kill(driver, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


class DyingStore(StorePayloads):
    """Objects in blocks of the smallest size that S3 takes."""

    def __new__(cls, url, point, driver):
        made = super().__new__(cls, url, 5 << 20)
        made.point, made.driver = point, driver
        return made

    def __reduce__(self):
        return DyingStore, (self.url, self.point, self.driver)

    def placement(self, name, expected):
        return DyingPlacement(self, name, expected)


def main(url, out, point, kind="large", *rest):
    payloads = DyingStore(*rest, point, os.getpid()) if rest else None
    labels = {"pulling": "body 5", "piece": "long"}
    puller = DyingPuller(os.getpid(), labels[point]) if point in labels else ManagerPuller()
    with spark_session() as spark:
        content = "large" if kind == "large" else RANGES
        reader = spark.readStream.format("dray").option("content", content)
        reader = reader.option("url", url)
        reader = reader.option("queue", "parcels" if kind == "large" else "orders")
        if kind == "large" and not rest:
            reader = reader.option("pieceBytes", "100000")
        rows = reader.option("maxOffsetsPerTrigger", "4").load()
        checkpoint = "checkpoint" if kind == "large" else "checkpoint-messages"
        settler = DyingSettler(point)
        Landing(Path(out), puller, settler, payloads=payloads, checkpoint=checkpoint).run(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
