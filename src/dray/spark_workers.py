"""Starts Spark's Python workers with their imports done: a `spark.python.daemon.module`.

Spark forks each worker from a daemon that has imported next to nothing, so that each worker spends
two processor seconds on pandas, Arrow and Dray. This daemon imports them once, before it forks.

A fork copies one thread, and every lock as it is. So the daemon may have no second thread when it
forks: Arrow's allocator is told to start none, and numpy starts none for the `OMP_NUM_THREADS` that
Spark gives the processes of tasks, one for each processor of a task. This module stands outside
`dray.spark`, which would import Arrow before this could tell it anything.

Java writes a task to its worker in several small pieces, and TCP sends a second one only when the
first is acknowledged. Linux delays that by 40 ms where it expects an answer to carry it. So each
task asks for acknowledgments at once.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from typing import BinaryIO

_Task = Callable[[BinaryIO, BinaryIO], None]


def acknowledging_at_once(task: _Task) -> _Task:
    """The same task, which does not delay what it acknowledges; it begins where it waits."""

    def run(infile: BinaryIO, outfile: BinaryIO) -> None:
        with socket.socket(fileno=os.dup(infile.fileno())) as to_java:
            if to_java.family != socket.AF_UNIX:
                to_java.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        task(infile, outfile)

    return run


if __name__ == "__main__":
    # Arrow reads its settings while it is imported.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

    import numpy as np
    import pandas as pd  # noqa: F401 - for the workers
    import pyspark.worker
    from pyspark.daemon import manager

    import dray.spark.landing.puller
    import dray.spark.source.data_source  # noqa: F401

    # All workers would draw the same numbers; Python's own `random` is seeded anew by itself.
    os.register_at_fork(after_in_child=np.random.seed)
    # Workers collect garbage after each task, and would copy all pages of what is imported here.
    gc.freeze()
    if hasattr(socket, "TCP_QUICKACK"):
        # The daemon looks the function up for each task.
        pyspark.worker.main = acknowledging_at_once(pyspark.worker.main)
    manager()
