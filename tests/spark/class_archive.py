"""An archive of the classes that Spark loads, from which each Java of the tests starts.

A start of Spark takes about eight processor seconds, of which Java reads and checks classes for
half. Java maps an archive (class data sharing) instead, if it was made by the same Java from the
same class path; any other it leaves alone, with a warning. So Spark runs from a SPARK_HOME whose
path and files stay, beside its archive, for all checkouts of this machine:

    CACHE/dray/tests/spark-KEY      KEY is of this Java and the version of PySpark
        packages                    PySpark and Py4J, hard links where the file system can
        home                        links, as `dray.spark.spark_home` makes them for one process
        classes.jsa                 made once, by this module as a program, about 150 MB
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from dray.spark.java import Java, find_java
from dray.spark.spark_home import installed_package, link_home

HOUSE = Path(__file__).parents[2]
MADE_WITHIN_S = 900


def archive_settings() -> dict[str, str]:
    """Variables for whatever starts Spark; none where the user has set a SPARK_HOME.

    The first caller on this machine makes the archive, and others wait for it.
    """
    if "SPARK_HOME" in os.environ:
        return {}
    java = find_java()
    place = _place(java)
    place.mkdir(parents=True, exist_ok=True)
    home, archive = place / "home", place / "classes.jsa"
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            _link(home, place / "packages")
        if not archive.exists() and can_archive(java):
            _make(home, archive)
    settings = {"SPARK_HOME": str(home)}
    if archive.exists():
        settings["SPARK_SUBMIT_OPTS"] = f"-XX:SharedArchiveFile={archive}"
    return settings


def can_archive(java: Java) -> bool:
    """Whether this Java has the archive of its own classes, on which another one can stand."""
    return not _run([str(java.executable), "-Xshare:on", "-version"]).returncode


def _place(java: Java) -> Path:
    said = _run([str(java.executable), "-version"]).stdout
    of = [said, str(java.executable.resolve()), str(java.home)]
    of += [version("pyspark"), version("py4j")]
    key = hashlib.sha256("\0".join(of).encode()).hexdigest()[:16]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "dray" / "tests" / f"spark-{key}"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


def _link(home: Path, packages: Path) -> None:
    def kept(name: str) -> Path:
        package = packages / name
        if not package.exists():
            shutil.copytree(installed_package(name), package, copy_function=_link_or_copy)
        return package

    # What an ended run left half done.
    shutil.rmtree(packages, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(dir=home.parent))
    link_home(fresh, kept)
    fresh.rename(home)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _make(home: Path, archive: Path) -> None:
    """Run Spark once; its Java writes the archive as it ends."""
    fresh = archive.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    # Java names each class that it leaves out, as a warning.
    options = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:disable -Xlog:all=error:stderr"
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.class_archive"],
        cwd=HOUSE, env=os.environ | {"SPARK_HOME": str(home), "SPARK_SUBMIT_OPTS": options},
        capture_output=True, text=True, timeout=MADE_WITHIN_S, check=False,
    )  # fmt: skip
    assert not done.returncode, f"no archive of Java's classes:\n{done.stdout}{done.stderr}"
    fresh.rename(archive)


def load_classes() -> None:
    """Land a few messages, so that Java loads what a streaming query needs; wait for its end."""
    from dray.spark import spark_session
    from dray.spark.landing.landing import Landing
    from tests.spark import local_queue

    directory = Path(tempfile.mkdtemp(prefix="dray-classes-"))
    try:
        with spark_session() as spark:
            java = spark.sparkContext._gateway.proc
            spark.dataSource.register(local_queue.LocalSource)
            queue = local_queue.LocalQueue(directory / "queue")
            queue.add(b"one")
            queue.add(b"two")
            reader = spark.readStream.format("localqueue").option("atonce", "1")
            rows = reader.option("directory", str(queue.directory)).load()
            Landing(directory / "out", local_queue.LocalPuller(), local_queue.LocalSettler()).run(
                rows
            )
            spark.range(9).repartition(2).write.parquet(str(directory / "rows"))
            assert spark.read.parquet(str(directory / "rows")).count() == 9
        java.stdin.close()
        assert not java.wait(MADE_WITHIN_S), "Java did not end well"
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    load_classes()
