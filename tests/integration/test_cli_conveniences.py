"""Completion, suggestions, `python -m dray`, options of connections, files of options, services."""

import os
import pty
import select
import shutil
import signal
import socket
import subprocess
import sys
import tomllib

import pytest

import dray as client
from dray.testing.processes import ManagerProcess
from tests.integration.commands import (
    COMMAND,
    WITHIN_S,
    Said,
    dray,
    environment,
    finish,
    run,
    started,
    until,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    with ManagerProcess("manager", tmp_path_factory.mktemp("conveniences")) as running:
        with running.connect() as manager:
            for name in ("orders", "others", "heavy"):
                manager.create_queue(name)
        yield running


def completed(url, *words):
    """What bash is given for the last of some words."""
    asked = {"_DRAY_COMPLETE": "bash_complete", "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        COMMAND, env=environment(url) | asked | {"COMP_WORDS": " ".join(("dray", *words))},
        capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    return [line.partition(",")[2] for line in done.stdout.decode().splitlines() if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell(shell, tmp_path):
    said = dray("completion", shell).assert_good()
    assert "_DRAY_COMPLETE" in said.out
    if shutil.which(shell):
        (tmp_path / "script").write_text(said.out)
        subprocess.run([shell, "-n", tmp_path / "script"], check=True)
    assert dray("completion", "tcsh").status == 2


def test_names_of_commands_and_queues_are_completed(process):
    assert "deadletter" in completed(process.url, "dea")
    assert completed(process.url, "queue", "sh") == ["show"]
    for words in (("queue", "show", "o"), ("peek", "o"), ("move", "heavy", "o")):
        assert completed(process.url, *words) == ["orders", "others"]
    assert completed("dray://127.0.0.1:1", "peek", "o") == []


def test_a_command_that_is_none_is_answered_with_one_that_is_like_it():
    for words, meant in ((["queu"], "queue"), (["queue", "lst"], "list")):
        said = dray(*words)
        assert said.status == 2
        assert f"'{meant}'" in said.err


def test_python_runs_the_package_as_the_program():
    assert run("dray", "--version").out == f"dray {client.__version__}\n"


def test_a_file_of_options_is_written_once_and_is_good(tmp_path):
    file = tmp_path / "dray.toml"
    dray("config", "init", file).assert_good()
    assert "is good" in dray("config", "check", file).assert_good().out
    dray("config", "init", file).assert_error("target-unwritable")
    shown = dray("config", "init").assert_good().out
    assert shown == file.read_text()
    # Each option with a default of its own is good when it is no comment any more.
    lines = [line.removeprefix("# ") for line in shown.partition("# Rules")[0].splitlines()]
    options = [line for line in lines if " = " in line and "not set" not in line]
    file.write_text("\n".join(options))
    assert len(tomllib.loads(file.read_text())) > 15
    dray("config", "check", file).assert_good()


def test_a_file_of_options_for_which_there_is_no_room_is_not_in_the_way_of_the_next_try(tmp_path):
    file = tmp_path / "dray.toml"
    # A write beyond the limit of a file's size fails as on a full disk.
    full = ["prlimit", "--fsize=100", *COMMAND, "config", "init", str(file)]
    done = subprocess.run(full, capture_output=True, check=False, timeout=WITHIN_S)
    said = Said(done.returncode, done.stdout.decode(), done.stderr.decode())
    said.assert_error("target-unwritable")
    dray("config", "init", file).assert_good()


def test_a_file_that_leaves_the_data_directory_to_the_command_line_is_checked_and_explained(
    tmp_path,
):
    """Both commands asked for --data, an option that they do not have."""
    file = tmp_path / "dray.toml"
    file.write_text('[[access]]\nwho = ["cert:ada"]\nmay = ["send"]\nqueues = ["orders"]\n')
    said = dray("config", "check", file).assert_good().out
    assert said == f"{file} is good: data directory left to --data, 1 access rule\n"
    told = dray("access", "explain", "cert:ada", "orders", "--config", file).assert_good().out
    assert "send" in told
    refused = dray("serve", "--config", file).assert_error("invalid-configuration")
    assert "give --data DIR" in refused


def test_certificates_of_a_connection_may_be_options(tmp_path):
    dray("cert", "init", cwd=tmp_path).assert_good()
    for name in ("there", "ada"):
        dray("cert", "issue", name, "--host", "127.0.0.1", cwd=tmp_path).assert_good()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        listen = f"127.0.0.1:{probe.getsockname()[1]}"
    served = {"tls_cert": str(tmp_path / "there.pem"), "tls_client_ca": str(tmp_path / "ca.pem")}
    with client.open(tmp_path / "data", listen=listen, **served):
        ca, cert = ("--ca", tmp_path / "ca.pem"), ("--cert", tmp_path / "ada.pem")
        dray(*ca, *cert, "--url", f"drays://{listen}", "info").assert_error("access-denied")
        said = dray(*cert, "--url", f"drays://{listen}", "info")
        assert "certificate" in said.assert_error("connection-lost")


def test_the_log_level_is_an_option_of_every_command(process):
    said = dray("--log-level", "debug", "queue", "list", url=process.url).assert_good()
    assert "orders" in said.out
    assert dray("--log-level", "loud", "queue", "list", url=process.url).status == 2


def test_the_log_level_of_a_queue_manager_is_an_option(tmp_path):
    options = ["--log-level", "info"]
    with ManagerProcess("chatty", tmp_path, options) as process, process.connect() as manager:
        manager.queue("dray://127.0.0.1:1/x").send(b"x")
        until(lambda: '"level":"info"' in process.log.read_text())


def test_a_bar_speaks_one_system_of_units_and_shows_the_cursor_when_it_is_ended(tmp_path):
    program = """
import sys, time
from dray.cli.progress import progress
with progress("moving", 3 << 20) as shown:
    shown.update(1 << 20)
    time.sleep(0.5)
    shown.update(2 << 20)
    time.sleep(60)
"""
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program], stderr=theirs) as process:
        os.close(theirs)
        said = _read(ours, b"2.0 MiB of 3.0 MiB")
        process.send_signal(signal.SIGTERM)
        said += _read(ours, b"\x1b[?25h")
        assert process.wait(60) == -signal.SIGTERM
    os.close(ours)
    assert b"MiB/s" in said
    assert b" MB" not in said
    assert b"\x1b[?25l" in said


def _read(terminal, wanted):
    said = b""
    while wanted not in said:
        assert select.select([terminal], [], [], 60)[0], said
        said += os.read(terminal, 65536)
    return said


def test_nothing_is_said_twice_where_no_terminal_is(capsys, monkeypatch):
    from dray.cli import progress

    monkeypatch.setattr(progress, "PLAIN_LINE_EVERY_S", 0.0)
    with progress.progress("moving", 100) as shown:
        for done in (0, 0, 50, 50, 100):
            shown.update(done)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        "moving: 50 B of 100 B",
        "moving: 100 B of 100 B",
    ]


def test_an_interrupted_move_says_where_the_messages_are(process):
    with process.connect() as manager:
        manager.queue("orders").send_many([b"x"] * 10)
    program = """
import signal
from dray.client.awaited import moving
real = moving._move
async def interrupted(*arguments):
    signal.raise_signal(signal.SIGINT)
    return await real(*arguments)
moving._move = interrupted
from dray_program import main
import sys
sys.argv[1:] = ["move", "orders", "others"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True, check=False, env=environment(process.url), timeout=100,
    )  # fmt: skip
    assert done.returncode == 130
    assert b"interrupted" in done.stderr
    assert b"each message is in orders or in others" in done.stderr
    with process.connect() as manager:
        assert manager.queue("orders").purge() + manager.queue("others").purge() == 10


def test_a_waiting_receive_says_what_it_waits_for(process):
    with process.connect() as manager, manager.transaction() as held:
        queue = manager.create_queue("awaited")
        with started("receive", "awaited", url=process.url) as receiving:
            line = receiving.stderr.readline().decode()
            assert line == "dray: waiting for a message in 'awaited' (Ctrl-C ends it)\n"
            queue.send(b"here")
            assert finish(receiving).out == "here"
        queue.send(b"taken")
        queue.receive(0, held)
        with started("receive", "awaited", "--timeout", 3, url=process.url) as receiving:
            line = receiving.stderr.readline().decode()
            assert "1 message in it cannot be taken yet, see `dray doctor awaited`" in line
            said = finish(receiving)
            said.assert_error("receive-timeout")
            assert said.err.endswith(": no message became available in 'awaited' within 3 s\n")
        with started("receive", "awaited", url=process.url) as receiving:
            receiving.stderr.readline()
            receiving.send_signal(signal.SIGINT)
            told = "0 messages received; every other message is still in awaited"
            said = finish(receiving)
            assert (said.status, said.err.strip()) == (130, f"dray: interrupted; {told}")


def test_an_interrupted_send_says_that_nothing_was_sent(process, tmp_path):
    os.mkfifo(tmp_path / "endless")
    send = ("send", "orders", "--large", tmp_path / "endless")
    with (
        started(*send, url=process.url) as sending,
        (tmp_path / "endless").open("wb") as endless,
    ):
        endless.write(bytes(6_000_000))
        endless.flush()
        until(lambda: _transactions(process))
        sending.send_signal(signal.SIGINT)
        said = finish(sending)
    assert (said.status, said.err.splitlines()[-1]) == (
        130,
        "dray: interrupted; nothing was sent to orders",
    )


def _transactions(process):
    from dray.wire.message_frames import ListPrepared, PreparedList

    with process.connect() as manager:
        handle = manager.queue("orders").handle
        _, frame = handle.call(lambda _: ListPrepared(), PreparedList)
        return frame.head.open


UNITS = [
    ("serve", ["--data", "/var/lib/dray data"]),
    ("watch", ["/srv/in%", "orders", "--state", "/var/lib/dray-watch", "--url", "dray://a:1"]),
    ("receive", ["orders", "--large", "--to", "/srv/out", "--follow", "--url", "dray://a:1"]),
]


@pytest.mark.parametrize(("kind", "arguments"), UNITS, ids=[kind for kind, _ in UNITS])
def test_a_unit_for_a_service_is_accepted_by_systemd(tmp_path, kind, arguments):
    unit = dray("service", "print", "--user", "root", kind, *arguments).assert_good().out
    assert "Type=notify" in unit
    assert "WatchdogSec=2min" in unit
    assert f" {kind} " in unit
    assert "NoNewPrivileges=yes" in unit
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed, so nothing says whether systemd takes it")
    file = tmp_path / f"dray-{kind}.service"
    file.write_text(unit)
    done = subprocess.run(
        [analyze, "verify", "--man=no", file], capture_output=True, check=False, timeout=100
    )
    about_ours = [line for line in done.stderr.decode().splitlines() if "dray-" in line]
    assert (done.returncode, about_ours) == (0, [])


@pytest.fixture
def service_manager(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(60)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def test_a_queue_manager_tells_systemd_that_it_is_ready_alive_and_stops(
    tmp_path, service_manager, monkeypatch
):
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    data = tmp_path / "data"
    with started("serve", "--data", data) as process:
        assert service_manager.recv(100) == b"READY=1"
        # It is ready indeed.
        with client.connect(f"dray+unix://{data}/dray.sock") as manager:
            assert manager.info().pid == process.pid
        for _ in range(3):
            assert service_manager.recv(100) == b"WATCHDOG=1"
        process.send_signal(signal.SIGTERM)
        while (said := service_manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert said == b"STOPPING=1"


def test_a_watched_folder_is_ready_when_it_is_connected_and_says_that_it_is_alive(
    process, tmp_path, service_manager, monkeypatch
):
    (tmp_path / "in").mkdir()
    monkeypatch.setenv("WATCHDOG_USEC", "100000")
    watch = ("watch", tmp_path / "in", "heavy", "--state", tmp_path / "state")
    with started(*watch, url=process.url) as watching:
        told = [service_manager.recv(100) for _ in range(5)]
        assert told.count(b"READY=1") == 1
        assert told.count(b"WATCHDOG=1") == 4
        watching.send_signal(signal.SIGTERM)
        while (said := service_manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert said == b"STOPPING=1"
        assert watching.wait(60) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["spark", "land", "orders", "--to", "out"],
        ["spark", "audit", "out"],
        ["spark", "compact", "out"],
        ["demo"],
    ],
    ids=["land", "audit", "compact", "demo"],
)
def test_a_command_of_spark_without_the_extra_names_the_extra(words, tmp_path):
    (tmp_path / "out").mkdir()
    script = f"import sys; sys.modules['pyarrow'] = None; from dray.cli import main; main({words})"
    said = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == client.InvalidConfiguration.exit_status
    assert said.stderr == (
        "dray: invalid-configuration: pyarrow is not installed; `pip install 'dray[spark]'` brings"
        " Spark\n"
    )
