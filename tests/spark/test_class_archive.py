"""The Java of these tests starts from an archive of its classes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.spark.java import find_java
from tests.spark.class_archive import can_archive


@pytest.mark.spark
@pytest.mark.slow
def test_the_java_of_the_tests_has_its_classes_from_the_archive(spark, class_archive):
    """Java says nothing where it leaves an archive alone that it cannot use, and is slow."""
    if not can_archive(find_java()):
        pytest.skip("this Java has no archive of its own classes")
    options = class_archive.get("SPARK_SUBMIT_OPTS", "a SPARK_HOME of the user")
    java = spark.sparkContext._gateway.proc.pid
    assert options.partition("=")[2] in Path(f"/proc/{java}/maps").read_text(), options
