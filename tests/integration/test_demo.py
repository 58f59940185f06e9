"""The demonstration on small files of every kind, as a person would start it."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.integration.commands import dray, finish, started, until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    sizes = {"empty": 0, "small.txt": 5, "exact.bin": 4_000_000, "large.bin": 21_000_000}
    sizes |= {f"many/{number:02}.bin": 40_000 * number for number in range(20)}
    for name, size in sizes.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(os.urandom(size))
    return folder


def children_of(pid):
    """Processes whose parent is, or was, one of ours: by the directory they work in."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if str(pid) in (folder / "cmdline").read_bytes().decode(errors="replace"):
                    found.append(folder.name)
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


@pytest.fixture(scope="module")
def lossy(files, tmp_path_factory):
    """A run that drops a fragment of three files, and its directory."""
    work = tmp_path_factory.mktemp("lossy") / "work"
    return run_demo(files, work, "--lossy", "--keep"), work


def test_everything_arrives_through_a_kill_and_lands_as_it_was_sent(lossy):
    """But for the three files of which a fragment was dropped; the torture drops none."""
    said, work = lossy
    assert_landed_as_sent(said, 24 - 3)
    assert children_of(work) == []


@pytest.mark.torture
def test_every_file_arrives_through_a_kill_and_lands_as_it_was_sent(files, tmp_path):
    work = tmp_path / "work"
    said = run_demo(files, work)
    assert_landed_as_sent(said, 24)
    assert said["holes"] == []
    assert said["explained"] == []
    assert len(list(Path(said["payloads"]).iterdir())) == 24
    assert not (work / "source").exists(), "the managers' data is removed unless kept"
    assert children_of(work) == []


def assert_landed_as_sent(said, whole):
    assert said["holds"]
    assert (said["files"], said["identical"], said["sent"]) == (whole, whole, 24)
    assert (said["duplicates"], said["out_of_order"], said["wrong"]) == (0, 0, [])
    assert said["results"] == whole, "a row of the chain for each file"
    assert set(said["rates_bytes_s"]) >= {"chain", "land", "land, moving", "audit"}
    assert said["audited"] == 24
    assert said["kill"].startswith("killed")
    assert said["transactions"] < said["files"], "several files share a transaction"
    assert list(Path(said["table"]).glob("*.parquet"))


def test_dropped_fragments_are_named_exactly_and_the_rest_lands(lossy):
    said, work = lossy
    assert said["holds"]
    assert said["holes"] == said["dropped"]
    assert {hole["label"]: hole["missing"] for hole in said["holes"]} == {
        "large.bin": [[3, 4]],
        "exact.bin": [[1, 1]],
        "many/01.bin": [[1, 1]],
    }
    assert (said["files"], said["identical"], said["results"]) == (21, 21, 21)
    assert [finding.split()[0] for finding in said["explained"]] == ["hole"] * 3
    assert (work / "source").exists()


def run_demo(files, work, *options):
    said = dray("demo", "--json", "--files", files, "--work", work, *options).assert_good()
    return json.loads(said.out)


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("destination.log", signal.SIGHUP),
        ("source.log", signal.SIGTERM),
        pytest.param("spark.log", signal.SIGINT, marks=pytest.mark.torture),
        ("spark.log", signal.SIGTERM),
    ],
)
def test_an_interrupt_leaves_no_process_behind(files, tmp_path, moment, number):
    """The moments: a queue manager is starting, files are being sent, Spark is starting."""
    work = tmp_path / "work"
    with started("demo", "--files", files, "--work", work) as process:
        until(lambda: (work / moment).exists() or process.poll() is not None)
        process.send_signal(number)
        process.send_signal(signal.SIGINT)
        said = finish(process)
    assert said.status == 130, said
    assert "Traceback" not in said.err
    until(lambda: children_of(work) == [])


def test_a_directory_that_is_in_use_is_left_alone(files, tmp_path):
    (tmp_path / "mine").write_bytes(b"mine")
    said = dray("demo", "--files", files, "--work", tmp_path)
    assert str(tmp_path) in said.assert_error("invalid-configuration")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_missing_directory_of_files_is_named(tmp_path):
    said = dray("demo", "--files", tmp_path / "missing", cwd=tmp_path)
    assert "missing" in said.assert_error("source-unreadable")
