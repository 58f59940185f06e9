"""The work of one task of a landing into a store; run as a program: pull_into_store.py URL STORE.

It puts the payloads of the queue `parcels` in place, one after the other, and prints by how many
bytes the peak of its memory grew from the first one to the last one.
"""

from __future__ import annotations

import resource
import sys

from dray.model.limits import KIB
from dray.spark.landing.objects import StorePayloads
from dray.spark.landing.puller import ManagerPuller
from dray.spark.landing.pulling import PullInto
from dray.spark.source.batch import BatchReader
from dray.spark.source.options import read_options


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


def main(url, store):
    options = {"url": url, "queue": "parcels", "content": "large", "minPartitions": "1"}
    reader = BatchReader(read_options(options))
    (partition,) = reader.partitions()
    (rows,) = reader.read(partition)
    peaks = []
    for at in sorted(range(rows.num_rows), key=lambda at: rows["size"][at].as_py()):
        pull = PullInto(StorePayloads(store), ManagerPuller())
        (put,) = pull.all([rows.slice(at, 1)])
        assert put["state"].to_pylist() == ["landed"]
        peaks.append(peak())
    sys.stdout.write(f"{peaks[-1] - peaks[0]}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
