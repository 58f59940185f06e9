"""The programs on the page about processes do what it says."""

import subprocess
import sys
from pathlib import Path

import pytest

import dray
from dray.daemon.config import read_options
from dray.daemon.embedded import EmbeddedDaemon
from tools.check_docs import FENCE

PAGE = Path(__file__).resolve().parent.parent.parent / "docs/how-to/processes-and-threads.md"
WITHIN_S = 200


@pytest.fixture
def addresses(tmp_path):
    options = read_options(
        data="", listen="127.0.0.1:0", open=True, socket=str(tmp_path / "dray.sock")
    )
    daemon = EmbeddedDaemon(tmp_path / "data", options)
    daemon.start()
    yield daemon.addresses
    daemon.stop()


def program_with(words, folder, **changes):
    """Write the one program of the page that has those words, with other addresses in it."""
    found = [fence["body"] for fence in FENCE.finditer(PAGE.read_text("utf-8"))]
    (program,) = (each for each in found if words in each)
    for old, new in changes.items():
        program = program.replace(old, new)
    file = folder / "program.py"
    file.write_text(program, "utf-8")
    return file


def run(file):
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", file],
        cwd=file.parent,
        check=True,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
    )


@pytest.mark.slow
def test_program_that_forks_sends_from_both_processes(addresses, tmp_path):
    url = next(each for each in addresses if each.startswith("dray://"))
    with dray.connect(url) as manager:
        orders = manager.create_queue("orders")
        file = program_with(
            "over a connection of its own", tmp_path, **{"dray://127.0.0.1:7340": url}
        )
        assert not run(file).stderr
        found = {bytes(each.body) for each in orders.receive_many(10)}
    assert found == {b"from the child", b"from the parent"}


@pytest.mark.slow
def test_workers_that_are_spawned_connect_by_address(addresses, tmp_path):
    url = next(each for each in addresses if each.startswith("dray+unix://"))
    with dray.connect(url) as manager:
        manager.create_queue("pictures")
        file = program_with(
            'get_context("spawn")', tmp_path, **{"dray+unix:///run/dray/dray.sock": url}
        )
        said = run(file)
        found = [str(each.id) for each in manager.queue("pictures").receive_many(10)]
    assert sorted(eval(said.stdout)) == sorted(found)  # noqa: S307 - a list that our program printed
    assert not said.stderr


@pytest.mark.slow
def test_child_reaches_the_embedded_manager_of_its_parent_by_address(tmp_path):
    said = run(program_with('dray.open("store", socket', tmp_path))
    assert said.stdout == "b'from the child'\n"
    assert not said.stderr
