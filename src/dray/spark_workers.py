"""Starts Spark's Python workers with their imports done: a `spark.python.daemon.module`.

Spark forks each worker from a daemon that has imported next to nothing, so that each worker spends
two processor seconds on pandas, Arrow and Dray. This daemon imports them once, before it forks.

A fork copies one thread, and every lock as it is. So the daemon may have no second thread when it
forks: Arrow's allocator is told to start none, and numpy starts none for the `OMP_NUM_THREADS` that
Spark gives the processes of tasks, one for each processor of a task. This module stands outside
`dray.spark`, which would import Arrow before this could tell it anything.
"""

from __future__ import annotations

import gc
import os

if __name__ == "__main__":
    # Arrow reads its settings while it is imported.
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

    import numpy as np
    import pandas as pd  # noqa: F401 - for the workers
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    import dray.spark.landing.puller
    import dray.spark.source.data_source  # noqa: F401

    # All workers would draw the same numbers; Python's own `random` is seeded anew by itself.
    os.register_at_fork(after_in_child=np.random.seed)
    # Workers collect garbage after each task, and would copy all pages of what is imported here.
    gc.freeze()
    manager()
