"""Queues as Spark reads them: options, offsets, and the tasks that read ranges of positions."""
