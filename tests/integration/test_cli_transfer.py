"""`dray transfer` as people and programs use it: two real processes and a queue manager."""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import dray
from dray.cli.commands import transfer
from dray.cli.program import run
from dray.large.digests import DIGESTS
from dray.model.transfer import TransferState
from dray.testing.processes import ManagerProcess
from tests.integration.commands import COMMAND, WITHIN_S, environment, until

pytestmark = pytest.mark.slow

PATIENCE_S = 120


@pytest.fixture(scope="module")
def manager(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("manager")) as process:
        with process.connect() as connected:
            connected.create_queue("reports")
        yield process


@pytest.fixture
def stage(tmp_path, manager, monkeypatch):
    """A file for the queue `reports`; transfers of each end are kept beside it."""
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    (tmp_path / "report.bin").write_bytes(os.urandom(3 << 20))
    (tmp_path / "in").mkdir()
    stage = Stage(tmp_path, manager.url)
    yield stage
    stage.end_what_runs()


class Stage:
    def __init__(self, path, url) -> None:
        self.path, self.url = path, url
        self.file = path / "report.bin"
        self.there = path / "in" / "report.bin"
        self.started = []

    def unfinished(self):
        """What this program says of it, which is quicker than another process."""
        with dray.connect(self.url) as manager:
            return manager.unfinished_transfers()

    def start(self, *arguments):
        """Begin a command; its end is waited for by `ended`."""
        process = subprocess.Popen(
            [*COMMAND, "transfer", *map(str, arguments)],
            env=environment(self.url) | {"DRAY_TRANSFERS": str(self.path / "transfers")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def end_what_runs(self):
        """End commands whose end a failed test has not waited for."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=WITHIN_S)

    def ended(self, process):
        """How a command ended and what it said."""
        out, err = process.communicate(timeout=WITHIN_S)
        return process.returncode, out.decode(), err.decode()

    def run(self, *arguments):
        return self.ended(self.start(*arguments))


@pytest.mark.parametrize(
    ("options", "kind"),
    [((), "blake3"), (("--relayed",), "blake3"), (("--digest", "sha256"), "sha256")],
    ids=["direct", "relayed", "sha256"],
)
def test_a_file_is_offered_and_accepted(stage, options, kind):
    offering = stage.start(
        "offer", stage.file, "reports", "--json", "--timeout", PATIENCE_S, *options
    )
    status, out, err = stage.run(
        "accept", "reports", "--to", stage.path / "in", "--timeout", PATIENCE_S
    )
    assert status == 0, err
    digest = DIGESTS[kind](stage.file.read_bytes()).hexdigest()
    assert f"saved {stage.there} (3.0 MiB), {kind} {digest}" in out
    assert stage.there.read_bytes() == stage.file.read_bytes()
    status, out, err = stage.ended(offering)
    assert status == 0, err
    assert json.loads(out)["offer"]["state"] == "done"
    assert stage.unfinished() == []


def test_accept_does_not_replace_a_file_that_appears_while_it_runs(stage, monkeypatch):
    def write_theirs(step):
        if step == "checked":
            stage.there.write_bytes(b"theirs")

    offering = stage.start("offer", stage.file, "reports", "--no-timeout")
    command = ["--url", stage.url, "transfer", "accept", "reports", "--timeout", str(PATIENCE_S)]
    monkeypatch.setattr("dray.client.files.steps.watch", write_theirs)
    assert run([*command, "--to", str(stage.there)]) == dray.TargetUnwritable.exit_status
    assert stage.there.read_bytes() == b"theirs"
    monkeypatch.setattr("dray.client.files.steps.watch", None)
    stage.there.unlink()
    assert run(command) == 0
    assert stage.there.read_bytes() == stage.file.read_bytes()
    assert stage.ended(offering)[0] == 0


def test_accept_ends_when_the_check_of_the_file_fails_unexpectedly(stage, monkeypatch, capsys):
    def fail(step):
        if step == "checked":
            raise OSError(errno.EIO, "the disk is gone")

    offering = stage.start("offer", stage.file, "reports", "--no-timeout")
    monkeypatch.setattr("dray.client.files.steps.watch", fail)
    command = ["--url", stage.url, "transfer", "accept", "reports", "--timeout", str(PATIENCE_S)]
    assert run([*command, "--to", str(stage.there)]) == 1
    assert "the disk is gone" in capsys.readouterr().err
    monkeypatch.setattr("dray.client.files.steps.watch", None)
    assert run(command) == 0
    assert stage.ended(offering)[0] == 0


def test_an_interrupted_offer_is_listed_resumed_and_cancelled(stage):
    offering = stage.start("offer", stage.file, "reports", "--timeout", PATIENCE_S)
    status, _, err = stage.run("accept", "reports", "--to", stage.file, "--timeout", PATIENCE_S)
    assert status == 25, err
    assert err.count("dray: target-unwritable: ") == 1
    offering.send_signal(signal.SIGINT)
    assert stage.ended(offering)[0] == 130
    listed = json.loads(stage.run("list", "--json")[1])
    assert {each["direction"] for each in listed} == {"in", "out"}
    assert "report.bin" in stage.run("list")[1]
    name = listed[0]["transfer_id"]
    for _ in listed:
        assert stage.run("cancel", name)[0] == 0
    assert stage.unfinished() == []
    status, _, err = stage.run("resume", name)
    assert status != 0
    assert err.startswith("dray: misuse: ")


def test_a_resumed_file_stays_at_its_path_unless_resume_names_another(stage):
    begun, named = stage.path / "begun", stage.path / "named"
    offering = stage.start("offer", stage.file, "reports", "--no-timeout")
    with dray.connect(stage.url) as manager:
        (offer,) = until(manager.unfinished_transfers)
        name = offer.transfer_id
        running = until(lambda: manager.running_transfer(name))
        until(lambda: list((stage.path / "transfers").rglob("*.out.sock")))
        running.suspend()
        accepting = stage.start("accept", "reports", "--to", begun)
        until(lambda: str(begun) in {each.path for each in manager.unfinished_transfers()})
        accepting.kill()
        stage.ended(accepting)
        accepting = stage.start("accept", "reports", "--to", named)
        told = f"dray: this resumes {name}, which is saved to {begun}, not to {named}\n"
        assert select.select([accepting.stderr], [], [], WITHIN_S)[0]
        assert accepting.stderr.readline().decode() == told
        accepting.kill()
        stage.ended(accepting)
        status, _, err = stage.run("resume", name, "--to", stage.file)
        assert (status, f"`dray transfer resume {name} --to PATH`" in err) == (25, True)
        running.resume()
        assert stage.run("resume", name, "--to", stage.path / "in")[0] == 0
    assert stage.ended(offering)[0] == 0
    assert stage.there.read_bytes() == stage.file.read_bytes()
    assert not list(stage.path.glob("begun*"))


def test_accept_takes_what_was_offered_while_it_waited_for_a_silent_producer(stage, monkeypatch):
    accept_file, offered = dray.Manager.accept_file, []

    def hears_nothing(handle, queue, timeout, *, direct=None):
        incoming = accept_file(handle, queue, timeout, response_timeout=0.2, direct=direct)
        if not offered:
            offered.append(manager.offer_file(stage.file, "reports"))
        return incoming

    monkeypatch.chdir(stage.path / "in")
    (stage.path / "left").write_bytes(b"left")
    with dray.connect(stage.url) as manager:
        offer = manager.offer_file(stage.path / "left", "reports")
        incoming = manager.accept_file("reports", PATIENCE_S, response_timeout=0.2)
        offer.close()
        with pytest.raises(dray.TransferTimeout):
            incoming.save_to(stage.path / "in" / "left")
        command = ["--url", stage.url, "transfer", "accept", "reports"]
        (stage.path / "in" / "left").write_bytes(b"LEFT")
        assert run(command) == dray.TargetUnwritable.exit_status
        assert (stage.path / "in" / "left").read_bytes() == b"LEFT"
        (stage.path / "in" / "left").unlink()
        monkeypatch.setattr(dray.Manager, "accept_file", hears_nothing)
        assert run(command) == 0
        assert offered[0].wait(WITHIN_S).state is TransferState.DONE
        assert stage.there.read_bytes() == stage.file.read_bytes()
        assert run(command) == 54
        manager.cancel_transfer(incoming.transfer_id)
        manager.cancel_transfer(incoming.transfer_id)


def test_resume_refuses_a_path_for_an_offer(stage):
    offering = stage.start("offer", stage.file, "reports", "--no-timeout")
    (offer,) = until(stage.unfinished)
    until(lambda: list((stage.path / "transfers").rglob("*.out.sock")))
    offering.kill()
    stage.ended(offering)
    status, _, err = stage.run("resume", offer.transfer_id, "--to", stage.path / "in")
    assert (status, "is an offer; --to is for a received file" in err) == (2, True), err
    assert stage.run("cancel", offer.transfer_id)[0] == 0


def test_nobody_asks_and_the_command_says_so_in_one_line(stage):
    status, _, err = stage.run("offer", stage.file, "reports", "--timeout", 0.2)
    assert status == 54
    assert err.startswith("dray: transfer-timeout: no consumer asked for ")
    assert len(err.splitlines()) == 1


def test_an_offer_whose_reference_is_gone_says_once_that_nobody_can_ask(stage, monkeypatch, capsys):
    monkeypatch.setattr(transfer, "_LOOK_S", 0.02)
    monkeypatch.setattr(transfer, "_LINGER_S", 0.0)
    said = []

    def warned():
        said.append(capsys.readouterr().err)
        return "no consumer can ask" in "".join(said)

    def purge_and_cancel():
        with dray.connect(stage.url) as manager:
            until(manager.unfinished_transfers)
            until(lambda: manager.queue("reports").info().message_count)
            assert not warned()
            manager.queue("reports").purge()
            try:
                until(warned)
            finally:
                manager.cancel_transfer(manager.unfinished_transfers()[0].transfer_id)

    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(purge_and_cancel)
        command = ["--url", stage.url, "transfer", "offer", str(stage.file), "reports"]
        assert run([*command, "--no-timeout"]) == dray.TransferCancelled.exit_status
        other.result()
    assert "".join([*said, capsys.readouterr().err]).count("no consumer can ask") == 1


def test_an_accept_without_an_offer_says_what_it_waits_for(stage, monkeypatch, capsys):
    monkeypatch.setattr("dray.cli.incoming_files.SAID_AFTER_S", 0.01)
    status = run(["--url", stage.url, "transfer", "accept", "reports", "--timeout", "0.02"])
    assert status == dray.ReceiveTimeout.exit_status
    said = capsys.readouterr().err
    assert "dray: waiting for an offer in 'reports'" in said
    assert said.endswith(": no file was offered in 'reports' within 0.02 s\n")


def test_a_running_transfer_is_suspended_resumed_and_cancelled_from_another_terminal(stage):
    for ending in ("resume", "cancel"):
        offering = stage.start("offer", stage.file, "reports", "--no-timeout")
        (offer,) = until(stage.unfinished)
        until(lambda: list((stage.path / "transfers").rglob("*.out.sock")))
        assert stage.run("suspend", offer.transfer_id)[0] == 0
        accepting = stage.start("accept", "reports", "--to", stage.path / "in")
        until(lambda: len(stage.unfinished()) == 2)
        assert {each.state for each in stage.unfinished()} == {TransferState.SUSPENDED}
        assert not stage.there.exists()
        assert stage.run("suspend", offer.transfer_id, "--consumer", "7")[0] != 0
        status, out, err = stage.run(ending, offer.transfer_id)
        assert (status, out.split()[1:]) == (0, [offer.transfer_id]), err
        ended = 0 if ending == "resume" else 55
        assert [stage.ended(each)[0] for each in (offering, accepting)] == [ended, ended]
        assert stage.unfinished() == []
        if ending == "resume":
            assert stage.there.read_bytes() == stage.file.read_bytes()
            stage.there.unlink()
        assert list((stage.path / "in").iterdir()) == []


def test_an_offer_has_one_limit_or_none(stage):
    status, _, err = stage.run("offer", stage.file, "reports", "--timeout", 5, "--no-timeout")
    assert (status, "not both" in err) == (2, True)


@pytest.mark.parametrize("run_by", ["a program", "nobody"])
def test_who_has_taken_an_offer_hears_that_it_was_cancelled(stage, run_by):
    with dray.connect(stage.url) as manager:
        offering = stage.start("offer", stage.file, "reports", "--no-timeout")
        incoming = manager.accept_file("reports", timeout=PATIENCE_S, response_timeout=PATIENCE_S)
        if run_by == "nobody":
            offering.send_signal(signal.SIGINT)
            assert stage.ended(offering)[0] == 130
        cancelling = stage.start("cancel", incoming.transfer_id)
        assert cancelling.stdout.readline().split() == [b"cancelled", incoming.transfer_id.encode()]
        with pytest.raises(dray.TransferRefused, match="the offer is over"):
            incoming.save_to(stage.there)
        if run_by == "a program":
            assert stage.ended(offering)[0] == dray.TransferCancelled.exit_status
        assert stage.ended(cancelling)[0] == 0
        assert stage.unfinished() == []


def test_r117_who_has_taken_an_offer_hears_that_its_file_changed_while_nobody_served_it(stage):
    with dray.connect(stage.url) as manager:
        offering = stage.start("offer", stage.file, "reports", "--no-timeout")
        incoming = manager.accept_file("reports", timeout=PATIENCE_S, response_timeout=PATIENCE_S)
        offering.send_signal(signal.SIGINT)
        assert stage.ended(offering)[0] == 130
        stage.file.write_bytes(b"another")
        resuming = stage.start("resume", incoming.transfer_id)
        with pytest.raises(dray.TransferSourceChanged):
            incoming.save_to(stage.there)
        status, _, err = stage.ended(resuming)
        assert (status, err.count("transfer-source-changed")) == (28, 1)
        assert stage.unfinished() == []
