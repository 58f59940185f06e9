"""Promises of `dray.folders.ledger`: it forgets nothing, and belongs to one queue."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dray.errors import InvalidConfiguration, StoreLocked
from dray.folders.ledger import FolderLedger
from dray.folders.tree import FoundFile

ONE, TWO = FoundFile("a", 1, 10, 100), FoundFile("b/\udcff", 2, 20, 200)


def opened(path, manager_id="m", queue="q"):
    return FolderLedger(path, manager_id=manager_id, queue=queue)


@pytest.fixture
def ledger(tmp_path):
    with opened(tmp_path / "state") as made:
        yield made


def test_a_file_is_new_until_its_transaction_has_committed(ledger):
    assert ledger.not_sent([ONE, TWO], changed=True) == [ONE, TWO]
    ledger.begin([("t1", [ONE]), ("t2", [TWO])])
    assert ledger.not_sent([ONE, TWO], changed=True) == []
    assert ledger.pending() == {"t1": [ONE._replace(mode=0o644)], "t2": [TWO]}
    ledger.settle([("t1", True), ("t2", False)])
    assert ledger.pending() == {}
    assert ledger.not_sent([ONE, TWO], changed=True) == [TWO]


@pytest.mark.parametrize("field", ["size", "mtime_ns", "inode"])
def test_another_version_is_new_unless_changes_are_skipped(ledger, field):
    ledger.begin([("t", [ONE])])
    ledger.settle([("t", True)])
    changed = ONE._replace(**{field: 7})
    assert ledger.not_sent([changed], changed=True) == [changed]
    assert ledger.not_sent([changed], changed=False) == []


def test_it_remembers_across_a_kill_at_any_moment(tmp_path):
    script = (
        "import os, sys, pathlib\n"
        "from dray.folders.ledger import FolderLedger\n"
        "from dray.folders.tree import FoundFile\n"
        "ledger = FolderLedger(pathlib.Path(sys.argv[1]), manager_id='m', queue='q')\n"
        "ledger.begin([('t', [FoundFile('a', 1, 10, 100)])])\n"
        "os.kill(os.getpid(), 9)\n"
    )
    state = tmp_path / "state"
    ended = subprocess.run([sys.executable, "-c", script, str(state)], check=False)
    assert ended.returncode == -9
    with opened(state) as ledger:
        assert ledger.pending() == {"t": [ONE]}


def test_many_files_are_asked_for_at_once(ledger):
    files = [FoundFile(f"f{at}", at, at, at) for at in range(3_000)]
    ledger.begin([("t", files[:2_000])])
    ledger.settle([("t", True)])
    assert ledger.not_sent(files, changed=True) == files[2_000:]


def test_files_to_clear_are_remembered_until_they_are_gone(ledger):
    ledger.begin([("t", [ONE, TWO])])
    ledger.settle([("t", True)], clear=True)
    assert ledger.to_clear() == [ONE, TWO]
    ledger.cleared([ONE], gone=True)
    ledger.cleared([TWO], gone=False)
    assert ledger.to_clear() == []
    assert ledger.not_sent([ONE, TWO], changed=True) == [ONE]


def test_files_that_cannot_be_removed_are_asked_for_only_when_they_are_tried_again(ledger):
    ledger.begin([("t", [ONE, TWO])])
    ledger.settle([("t", True)], clear=True)
    ledger.stay([ONE])
    assert ledger.to_clear() == [TWO]
    assert ledger.not_sent([ONE, TWO], changed=True) == []
    ledger.try_again()
    assert ledger.to_clear() == [ONE, TWO]


def test_a_second_process_is_refused(ledger, tmp_path):
    with pytest.raises(StoreLocked, match="another process uses the ledger"):
        opened(tmp_path / "state")


def test_the_ledger_of_another_queue_is_refused(tmp_path):
    opened(tmp_path / "state").close()
    for other in ({"queue": "other"}, {"manager_id": "other"}):
        with pytest.raises(InvalidConfiguration, match="is the ledger of queue 'q'"):
            opened(tmp_path / "state", **other)
    opened(tmp_path / "state").close()


def test_a_state_that_cannot_be_a_ledger_is_refused(tmp_path):
    (tmp_path / "file").write_text("file")
    with pytest.raises(InvalidConfiguration, match="cannot be used"):
        opened(tmp_path / "file")
    (tmp_path / "garbage").mkdir()
    (tmp_path / "garbage/ledger.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(InvalidConfiguration, match="cannot be used"):
        opened(tmp_path / "garbage")


def test_only_its_owner_reads_it(ledger, tmp_path):
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state/ledger.sqlite").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("planted", ["link", "name"])
def test_a_ledger_that_somebody_planted_is_not_opened(tmp_path, planted):
    with opened(tmp_path / "other"):
        pass
    (file,) = (tmp_path / "other").iterdir()
    state = tmp_path / "state"
    state.mkdir()
    if planted == "link":
        (state / file.name).symlink_to(file)
    else:
        (state / file.name).hardlink_to(file)
    with pytest.raises(InvalidConfiguration, match=r"remove it"):
        opened(state)
