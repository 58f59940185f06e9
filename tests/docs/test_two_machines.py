"""The page on two machines, command by command as written, on two machines that are namespaces."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import environment, until
from tests.lines.cable import Faults
from tests.lines.namespaces import DEVICE, cabled, why_not
from tools.check_docs import FENCE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-two-machines.md"
DEPOT, TILL = "depot", "till"
ADDRESSES = {DEPOT: "10.0.0.2/24", TILL: "10.0.0.1/24"}
CONNECTED = "That is all."
COMMANDS_MAX = 6
SCP = """#!/bin/sh
# Copies files to the directory of another machine's terminal, as scp does to a home directory.
for last; do :; done
for file; do
    [ "$file" = "$last" ] || cp "$file" "{folder}/${{last%:}}/" || exit 1
done
"""
PAYLOAD = bytes(range(256)) * 40_000
BLOCK_WITHIN_S = 200

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "namespaces can be made"),
]


class Machine:
    """A namespace with a directory, one terminal for the queue manager and one for commands."""

    def __init__(self, place, folder):
        self.folder = folder
        folder.mkdir()
        self._place = place
        self._exported = []
        self._manager = None

    def do(self, block):
        """Type a block of the page; a queue manager gets a terminal of its own."""
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if lines[0].startswith("dray serve"):
            (line,) = lines
            self._serve(line)
            return ""
        done = subprocess.run(
            self._typed("\n".join([*self._exported, *lines])),
            capture_output=True,
            check=False,
            text=True,
            timeout=BLOCK_WITHIN_S,
            **self._terminal(),
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        self._exported += [line for line in lines if line.startswith("export ")]
        return done.stdout

    def stop(self):
        """Ctrl+C at the queue manager."""
        if self._manager is not None:
            self._manager.send_signal(signal.SIGINT)
            assert self._manager.wait(100) == 0
            self._manager = None

    def _serve(self, line):
        self.stop()
        said = self.folder / "said"
        with said.open("wb") as log:
            self._manager = subprocess.Popen(
                self._typed(f"exec {line}"), stdout=log, stderr=log, **self._terminal()
            )

        def ready():
            assert self._manager.poll() is None, said.read_text()
            return "ready at" in said.read_text()

        until(ready)

    def _typed(self, script):
        return self._place.command(["bash", "-euo", "pipefail", "-c", script])

    def _terminal(self):
        programs = os.pathsep.join(
            [str(self.folder.parent / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
        )
        return {"cwd": self.folder, "env": environment() | {"PATH": programs}}


@pytest.fixture
def machines(tmp_path):
    with cabled(Faults()) as (one, other, _):
        made = {}
        (tmp_path / "bin").mkdir()
        scp = tmp_path / "bin" / "scp"
        scp.write_text(SCP.format(folder=tmp_path))
        scp.chmod(0o755)
        for place, name in ((one, TILL), (other, DEPOT)):
            subprocess.run(
                ["ip", "-n", place.name, "address", "add", ADDRESSES[name], "dev", DEVICE],
                check=True,
                capture_output=True,
            )
            made[name] = Machine(place, tmp_path / name)
            (tmp_path / ADDRESSES[name].partition("/")[0]).symlink_to(tmp_path / name)
        try:
            yield made
        finally:
            for machine in made.values():
                machine.stop()


def blocks():
    """Each block that a reader types: its place in the page, its machine, and what is typed."""
    for fence in FENCE.finditer(PAGE.read_text("utf-8")):
        if fence["language"] == "sh":
            where = re.match(r"# on the (\w+)", fence["body"])
            assert where, f"a block does not say on which machine: {fence['body']}"
            yield fence.start(), where[1], fence["body"]


def until_connected():
    """The blocks that connect the machines."""
    end = PAGE.read_text("utf-8").index(CONNECTED)
    return [(name, block) for at, name, block in blocks() if at < end]


def test_two_machines_are_connected_by_at_most_six_commands():
    lines = [line for _, block in until_connected() for line in block.splitlines()]
    commands = [line for line in lines if not line.startswith("#")]
    assert len(commands) <= COMMANDS_MAX
    assert not any(joint in line for line in commands for joint in (";", "&&", "|"))


def test_the_commands_of_the_page_connect_two_machines_as_they_are_written(machines):
    depot, till = machines[DEPOT].folder, machines[TILL].folder
    (till / "one.bin").write_bytes(PAYLOAD)
    said = [machines[name].do(block) for _, name, block in blocks()]
    assert (depot / "received" / "one.bin").read_bytes() == PAYLOAD
    assert "it is here" in said[-1]
    for secret in (depot / "ca.key", depot / "depot.pem", till / "till.pem"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    # Both ends prove who they are: a program without a certificate is told so.
    refused = "! DRAY_CA=ca.pem dray --url drays://10.0.0.2:7340 queue list 2>&1"
    assert "connection-lost" in machines[TILL].do(refused)


def test_the_page_names_the_reason_that_a_sender_without_tls_is_shown(machines):
    there, here = machines[DEPOT], machines[TILL]
    for name, block in until_connected():
        if name == DEPOT:
            there.do(block)
    here.do("dray serve --data queues --socket dray.sock")
    here.do("export DRAY_URL=dray+unix://$PWD/dray.sock")
    shown = "dray queue show dray://10.0.0.2:7340/landing"
    here.do("echo x | dray send dray://10.0.0.2:7340/landing --stdin")
    until(lambda: "this port speaks TLS only" in here.do(shown))
    assert "this port speaks TLS only" in PAGE.read_text("utf-8")
