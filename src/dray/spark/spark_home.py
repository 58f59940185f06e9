"""A SPARK_HOME of links, from which Spark's Python processes load compiled modules.

Spark puts the archives of `$SPARK_HOME/python/lib` before everything else on the path of each
Python process that it starts. They have sources only, and Python caches nothing beside an archive,
so each process compiles PySpark anew, for half a processor second. Our home links to the installed
packages instead: each archive is a directory there, and Python takes the bytecode of the package.

    bin, jars, ...                       links into the installed package
    python/lib/pyspark.zip/pyspark       a link to the installed package
    python/lib/py4j-VERSION-src.zip/py4j
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from dray.spark.scratch import own_directory

_VARIABLE = "SPARK_HOME"
_LIB = Path("python") / "lib"
_ARCHIVE = re.compile(r"(\w+)(?:-.*)?\.zip")


@contextmanager
def spark_home_set(master: str) -> Iterator[None]:
    """Have a Java that is started meanwhile run from our home, if its tasks run on this machine.

    A SPARK_HOME that the user has set is left alone.
    """
    if _VARIABLE in os.environ or not master.startswith("local"):
        yield
        return
    os.environ[_VARIABLE] = str(_own_home())
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


def link_home(home: Path, package: Callable[[str], Path]) -> None:
    """Fill an empty directory with links; `package` gives the directory of a package."""
    installed = package("pyspark")
    for each in installed.iterdir():
        if each.name != _LIB.parts[0]:
            (home / each.name).symlink_to(each)
    for archive in (installed / _LIB).iterdir():
        found = _ARCHIVE.fullmatch(archive.name)
        if found is not None:
            modules = home / _LIB / archive.name
            modules.mkdir(parents=True)
            (modules / found[1]).symlink_to(package(found[1]))


def installed_package(name: str) -> Path:
    """The directory of a package, for `link_home`."""
    spec = find_spec(name)
    assert spec is not None, "pyspark needs it"
    assert spec.origin is not None
    return Path(spec.origin).resolve().parent


def _own_home() -> Path:
    home = own_directory() / "home"
    if not home.exists():
        home.mkdir()
        link_home(home, installed_package)
    return home
