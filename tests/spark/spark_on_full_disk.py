"""Runs Spark on a disk that somebody else fills before each run; itself run with its own mount.

spark_on_full_disk.py URL FOLDER KIND=PAGES..., where FOLDER is a file system for this program
alone, PAGES are numbers with commas, and KIND is one of

    landing     `land` into a directory on the disk
    settling    a query that settles what it has written; its table and checkpoint are on the disk
    sink        a query that sends rows to a queue; its checkpoint is on the disk

For each number of free pages it starts a run, makes room, starts it again if it failed, and judges
what became of the messages. It prints a JSON line each time: the kind, the pages, the error of the
first run, and the complaints.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

import dray
from dray.errors import DrayError, StoreCorrupt
from dray.spark import land, settling, spark_session
from tests.spark.judged import JudgedQueue

FILES, LINES = 2, 4


class Trial(NamedTuple):
    """What is run on the full disk, and how its result is judged."""

    run: Callable[[], object]
    complaints: Callable[[], str]


def landing(url, manager, out, spark) -> Trial:
    queue = manager.create_queue(f"parcels-{out.name}")
    judged = JudgedQueue(manager, queue.name, Path(tempfile.mkdtemp()) / "sent", seed=3)
    judged.send(5)
    return Trial(lambda: land(url, queue.name, out, session=spark), lambda: judged.judge(out))


def settling_query(url, manager, out, spark) -> Trial:
    """A batch counts when the file says that it is whole, as in the recipe with manifests."""
    orders = manager.create_queue(f"orders-{out.name}")
    sent = [b"%d" % number for number in range(FILES * LINES)]
    orders.send_many(sent)

    def write(rows, batch_id):
        rows.write.mode("overwrite").parquet(f"{out}/data/{batch_id}")
        (out / f"whole-{batch_id}").touch()

    reader = spark.readStream.format("dray").option("url", url).option("queue", orders.name)
    rows = reader.option("maxOffsetsPerTrigger", LINES).load().select("body")
    writer = rows.writeStream.foreachBatch(settling(write))

    def complaints():
        written = Counter()
        for whole in out.glob("whole-*"):
            table = out / "data" / whole.name.removeprefix("whole-")
            for path in table.glob("*.parquet"):
                written.update(pq.read_table(path)["body"].to_pylist())
        return unlike(written, Counter(sent)) + left(orders.info().message_count)

    return Trial(lambda: run_query(writer, out), complaints)


def sink(url, manager, out, spark) -> Trial:
    results = manager.create_queue(f"rows-{out.name}")
    texts = Path(tempfile.mkdtemp())
    for number in range(FILES):
        path = texts / f"{number}.txt"
        path.write_text("".join(f"{number} {line}\n" for line in range(LINES)))
        os.utime(path, (1_700_000_000 + number,) * 2)
    lines = spark.readStream.option("maxFilesPerTrigger", "1").text(str(texts))
    writer = lines.withColumnRenamed("value", "body").writeStream.format("dray")
    writer = writer.option("url", url).option("queue", results.name)

    def complaints():
        found = Counter(bytes(message.body) for message in results.messages())
        sent = Counter(b"%d %d" % (at, line) for at in range(FILES) for line in range(LINES))
        return unlike(found, sent) + left(results.info().staged_count)

    return Trial(lambda: run_query(writer, out), complaints)


def unlike(found, sent):
    return "" if found == sent else f"lost {sent - found}, doubled or strange {found - sent}; "


def left(count):
    return f"{count} messages left" if count else ""


def run_query(writer, out):
    writer = writer.option("checkpointLocation", str(out / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


KINDS = {"landing": landing, "settling": settling_query, "sink": sink}


def fill(folder: Path, pages: int) -> Path:
    """Leave so many pages free."""
    status = os.statvfs(folder)
    filler = folder / "filler"
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (status.f_bavail - pages) * status.f_frsize)
    return filler


def try_on_full_disk(url, folder, kind, *, pages, spark) -> dict[str, object]:
    error = ""
    with dray.connect(url) as manager:
        trial = KINDS[kind](url, manager, folder / f"{kind}-{pages}", spark)
        filler = fill(folder, pages)
        try:
            trial.run()
        except DrayError as failed:
            error = f"{failed.code}: {failed}"
        filler.unlink()
        if error:
            try:
                trial.run()
            except StoreCorrupt as begun:
                # The disk was full as the query began. The user does what the sentence says.
                shutil.rmtree(re.search("remove the directory ([^ ]+) and", str(begun))[1])
                trial.run()
        return {"kind": kind, "pages": pages, "error": error, "wrong": trial.complaints()}


def main(url, folder, *wanted):
    with spark_session() as spark:
        for each in wanted:
            kind, pages = each.split("=")
            for number in pages.split(","):
                told = try_on_full_disk(url, Path(folder), kind, pages=int(number), spark=spark)
                print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
