"""The Python processes that Spark starts take the bytecode of the installed packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dray.spark.spark_home import link_home, spark_home_set


@pytest.fixture
def nobodys_home(monkeypatch):
    """The environment of a user who has set none."""
    monkeypatch.delenv("SPARK_HOME", raising=False)


@pytest.fixture
def installed(tmp_path):
    """PySpark and Py4J as an installer puts them, in small."""
    lib = tmp_path / "site" / "pyspark" / "python" / "lib"
    lib.mkdir(parents=True)
    for archive in ("pyspark.zip", "py4j-0.10-src.zip"):
        (lib / archive).write_bytes(b"sources only")
    (lib / "notes.txt").touch()
    (tmp_path / "site" / "pyspark" / "jars").mkdir()
    (tmp_path / "site" / "py4j").mkdir()
    return tmp_path / "site"


@pytest.mark.spark
@pytest.mark.slow
def test_a_process_of_spark_compiles_nothing_of_pyspark(spark):
    """An archive has no place for bytecode, and takes half a processor second of each process."""

    def tell(batches):
        import os

        import pyarrow as pa
        import pyspark

        for _ in batches:
            pass
        spec = pyspark.__spec__
        there = bool(spec.cached) and os.path.exists(spec.cached)  # noqa: PTH110 - a lone worker
        yield pa.RecordBatch.from_pydict({"path": [os.environ["PYTHONPATH"]], "there": [there]})

    row = spark.range(1).mapInArrow(tell, "path string, there boolean").collect()[0]

    archives = [Path(each) for each in row.path.split(":") if each.endswith(".zip")]
    assert [each.is_dir() for each in archives] == [True, True]
    assert row.there


def test_the_home_has_a_directory_in_place_of_each_archive(tmp_path, installed):
    home = tmp_path / "home"
    home.mkdir()

    link_home(home, lambda name: installed / name)

    assert (home / "jars").resolve() == installed / "pyspark" / "jars"
    lib = home / "python" / "lib"
    assert sorted(each.name for each in lib.iterdir()) == ["py4j-0.10-src.zip", "pyspark.zip"]
    assert (lib / "pyspark.zip" / "pyspark").resolve() == installed / "pyspark"
    assert (lib / "py4j-0.10-src.zip" / "py4j").resolve() == installed / "py4j"


def test_a_home_of_the_user_is_left_alone(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with spark_home_set("local[2]"):
        assert os.environ["SPARK_HOME"] == "/opt/spark"
    assert os.environ["SPARK_HOME"] == "/opt/spark"


def test_a_cluster_keeps_the_home_of_its_machines(nobodys_home):
    with spark_home_set("spark://master:7077"):
        assert "SPARK_HOME" not in os.environ


def test_the_home_goes_with_the_process_that_made_it_and_not_with_a_child(nobodys_home, tmp_path):
    script = (
        "import os, sys\n"
        "from dray.spark.spark_home import spark_home_set\n"
        "with spark_home_set('local[2]'):\n"
        "    home = os.environ['SPARK_HOME']\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    sys.exit()\n"
        "os.waitpid(child, 0)\n"
        "print('SPARK_HOME' in os.environ, os.path.exists(home + '/bin/spark-submit'), home)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    left, had, home = done.stdout.split()
    assert (left, had) == ("False", "True")
    assert Path(home).parents[1] == tmp_path
    assert list(tmp_path.iterdir()) == []
