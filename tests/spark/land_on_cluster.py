"""A landing on a cluster; run as a program: land_on_cluster.py MASTER URLS OUT.

`-` is the master that spark-submit was given.
"""

from __future__ import annotations

import sys

from dray.spark import land, spark_session

CONFIG = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.2",
    # A dead executor is no fault of the task that it ran.
    "spark.task.maxFailures": "8",
}


def main(master, urls, out):
    given = None if master == "-" else master
    with spark_session(master=given, config=CONFIG) as session:
        summary = land(urls, "parcels", out, session=session, rows_per_batch=4)
        sys.stdout.write(f"{session.sparkContext.master} {summary.files} {summary.clean}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
