"""`dray service print`: a unit has what the command needs, and says what is not there yet."""

import os
import sys

import pytest

from dray.cli.program import run

WATCH = ("watch", "/srv/in", "orders", "--state", "/var/lib/watch")
CALLED = "dray://127.0.0.1:7340"


@pytest.fixture
def unit(monkeypatch, capsys, tmp_path):
    """Print a unit in a directory of its own; gives its lines, or the status and what was said."""
    for name in [each for each in os.environ if each.startswith("DRAY_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def printed(*words, before=()):
        status = run([*before, "service", "print", *words])
        said = capsys.readouterr()
        printed.told = said.err
        return said.out.splitlines() if status == 0 else status

    return printed


def values(lines, key):
    return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]


def test_options_that_stand_before_the_command_are_part_of_the_unit(unit):
    before = ["--url", CALLED, "--token-file", "/etc/token", "--log-level", "debug"]
    (command,) = values(unit(*WATCH, before=before), "ExecStart")
    assert command.endswith(" ".join(["", *before, *WATCH]))


def test_a_service_may_write_where_its_file_of_options_has_data_and_sockets(unit, tmp_path):
    options = tmp_path / "dray.toml"
    options.write_text('data = "/var/lib/dray"\nsocket = "/srv/door/a"\nhttp = "/run/web/b"\n')
    lines = unit("serve", "--config", str(options))
    assert values(lines, "ReadWritePaths")[:2] == ["/var/lib/dray", "/srv/door"]
    assert values(lines, "RuntimeDirectory") == ["%N web"]


def test_a_dollar_is_written_twice_in_the_command_and_nowhere_else(unit, monkeypatch):
    """A unit reads it in commands only: elsewhere two would be another path or another address."""
    monkeypatch.setenv("DRAY_CA", "/etc/cash$.pem")
    lines = unit("serve", "--data", "/srv/cash$%")
    assert values(lines, "ReadWritePaths")[0] == "/srv/cash$%%"
    assert values(lines, "ExecStart")[0].endswith(" serve --data /srv/cash$$%%")
    assert "DRAY_CA=/etc/cash$.pem" in values(lines, "Environment")


def test_the_unit_of_a_receiver_lets_its_command_end(unit):
    """By default systemd sends SIGTERM to the command of `--exec`, too, and that try has failed."""
    receive = ("receive", "orders", "--large", "--to", "/srv/out", "--follow", "--url", CALLED)
    assert values(unit(*receive), "KillMode") == ["mixed"]


def test_the_unit_of_a_watch_may_write_where_it_moves_files_to(unit):
    """Each place of a unit is a mount of its own, and no file moves from one to another."""
    watch = (*WATCH, "--url", CALLED, "--after")
    places = values(unit(*watch, "move:/srv/out/sent"), "ReadWritePaths")
    assert places[:2] == ["/var/lib/watch", "/srv"]
    assert unit(*watch, "move:/var/sent") == 2


def test_a_command_that_would_end_at_once_has_no_unit(unit, monkeypatch):
    assert unit("serve", "--no-such") == 2
    assert unit("receive", "orders", "--large", "--to", "x", "--url", CALLED) == 2
    assert "--follow" in unit.told
    assert unit("serve") == 21
    assert "the data directory is not set; give --data DIR" in unit.told
    called = ("--url", CALLED)
    assert unit(*WATCH, *called, "--wait") == 2
    assert unit("receive", "orders", "--follow", *called) == 2
    assert unit(*WATCH) == 2
    assert "name the queue manager with --url or DRAY_URL" in unit.told
    monkeypatch.setenv("DRAY_TOKEN", "secret")
    assert unit(*WATCH, *called) == 2
    assert "--token-file" in unit.told
    assert "secret" not in "".join(unit(*WATCH, *called, before=["--token-file", "/etc/token"]))


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("/opt/dray", ("yes", ["yes"])),
        ("/run/user/7", ("read-only", ["yes"])),
        ("/var/tmp/x", ("yes", [])),  # noqa: S108 - nothing is made there
    ],
)
def test_a_unit_hides_no_directory_that_has_the_program(unit, monkeypatch, where, shown):
    for name in ("prefix", "base_prefix"):
        monkeypatch.setattr(sys, name, where)
    monkeypatch.setattr(sys, "executable", f"{where}/bin/python")
    monkeypatch.setattr(sys, "argv", ["-m"])
    monkeypatch.setenv("PATH", "")
    monkeypatch.chdir("/")
    lines = unit("serve", "--data", "/var/lib/dray")
    assert (values(lines, "ProtectHome")[0], values(lines, "PrivateTmp")) == shown


def test_a_service_starts_in_a_directory_that_its_account_can_enter(unit, tmp_path):
    tmp_path.chmod(0o700)
    assert values(unit("serve", "--data", "/data"), "WorkingDirectory") == [str(tmp_path)]
    other = ("--user", "nobody", "serve", "--data")
    assert values(unit(*other, "/data"), "WorkingDirectory") == ["/"]
    assert unit(*other, "data") == 2
    assert f"nobody may not enter {tmp_path}, where data would be" in unit.told


def test_what_a_unit_rests_on_and_is_missing_is_named(unit, tmp_path):
    tmp_path.chmod(0o700)
    data = tmp_path / "data"
    unit("--user", "no-such-account", "serve", "--data", str(data))
    assert "create the account no-such-account" in unit.told
    assert f"create {data} and give it to no-such-account" in unit.told
    assert f"let no-such-account enter each directory above {data}" in unit.told
    data.mkdir()
    unit("serve", "--data", str(data))
    assert str(data) not in unit.told
