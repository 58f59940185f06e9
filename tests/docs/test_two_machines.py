"""The page on two machines, command by command as written, on two machines that are namespaces."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import environment, until
from tests.lines.cable import Faults
from tests.lines.namespaces import DEVICE, cabled, why_not
from tools.check_docs import FENCE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "connect-two-machines.md"
RECEIVING, SENDING = "receiving", "sending"
ADDRESSES = {RECEIVING: "10.0.0.2/24", SENDING: "10.0.0.1/24"}
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
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"cwd": self.folder, "env": environment() | {"PATH": programs}}


@pytest.fixture
def machines(tmp_path):
    with cabled(Faults()) as (one, other, _):
        made = {}
        for place, name in ((one, SENDING), (other, RECEIVING)):
            subprocess.run(
                ["ip", "-n", place.name, "address", "add", ADDRESSES[name], "dev", DEVICE],
                check=True,
                capture_output=True,
            )
            made[name] = Machine(place, tmp_path / name)
        try:
            yield made
        finally:
            for machine in made.values():
                machine.stop()


def blocks():
    """Each block that a reader types, with the machine it is for."""
    for fence in FENCE.finditer(PAGE.read_text("utf-8")):
        if fence["language"] == "sh":
            where = re.match(r"# on the (\w+) machine", fence["body"])
            assert where, f"a block does not say on which machine: {fence['body']}"
            yield where[1], fence["body"]


def arrives(machine, number):
    """What was sent is received whole."""
    machine.do(f"dray receive landing --large --to arrived-{number} --timeout 100")
    assert (machine.folder / f"arrived-{number}" / "one.bin").read_bytes() == PAYLOAD


def test_the_commands_of_the_page_connect_two_machines_as_they_are_written(machines):
    (machines[SENDING].folder / "one.bin").write_bytes(PAYLOAD)
    sends = 0
    for name, block in blocks():
        machines[name].do(block)
        if "certify till" in block:
            # The page says to copy these.
            for file in ("ca.pem", "till.pem", "till.key"):
                shutil.copy(machines[RECEIVING].folder / file, machines[SENDING].folder)
        if "dray send" in block:
            sends += 1
            if sends > 1:
                arrives(machines[RECEIVING], sends)
    assert (machines[RECEIVING].folder / "received" / "one.bin").read_bytes() == PAYLOAD
    assert sends == 3


def test_the_page_names_the_reason_that_a_sender_without_tls_is_shown(machines):
    there, here = machines[RECEIVING], machines[SENDING]
    for name, block in blocks():
        if name == RECEIVING and ("openssl" in block or "--tls-cert" in block):
            there.do(block)
        if "--tls-cert" in block:
            break
    here.do("dray serve --data queues")
    shown = "dray queue show dray://10.0.0.2:7340/landing"
    here.do("echo x | dray send dray://10.0.0.2:7340/landing --stdin")
    until(lambda: "this port speaks TLS only" in here.do(shown))
    assert "this port speaks TLS only" in PAGE.read_text("utf-8")


def test_the_certificates_of_the_page_pass_the_strictest_check(machines):
    """Python 3.13 and later ask for what OpenSSL calls strict."""
    (block,) = [block for _, block in blocks() if "openssl" in block]
    there = machines[RECEIVING]
    there.do(block)
    for name in ("depot", "till"):
        there.do(shlex.join(["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem",
                             f"{name}.pem"]))  # fmt: skip
