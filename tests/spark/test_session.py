"""The session that Dray makes for those who have none."""

from __future__ import annotations

import os

import pytest


@pytest.mark.spark
@pytest.mark.slow
def test_a_worker_on_a_busy_machine_is_waited_for_at_both_ends(spark):
    """Spark's own 15 seconds are too short where processes outnumber processors."""
    settings = spark.sparkContext.getConf()
    assert settings.get("spark.python.authenticate.socketTimeout") == "120s"
    assert os.environ["SPARK_AUTH_SOCKET_TIMEOUT"] == "120"
