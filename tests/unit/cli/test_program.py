"""How the program ends, and what it loads to do so."""

import subprocess
import sys

import pytest

from dray.cli.program import COMMANDS, one_line, program, run
from dray.errors import QueueNotFound, StoreError, every_error


def test_every_command_of_the_table_is_there():
    import click

    context = click.Context(program)
    for name in COMMANDS:
        assert isinstance(program.get_command(context, name), click.Command)


def test_misuse_of_the_command_line_ends_with_2(capsys):
    assert run(["no-such-command"]) == 2
    assert run(["send", "orders"]) == 2
    assert "Usage:" in capsys.readouterr().err


def test_help_ends_with_0(capsys):
    assert run(["--help"]) == 0
    assert run(["send", "--help"]) == 0


def test_a_group_tells_each_of_its_commands_in_a_whole_sentence(capsys):
    assert run(["journal", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "List the first messages of QUEUE's journal, or of the source journal without" in told
    assert "..." not in told.partition("Commands:")[2]


@pytest.mark.parametrize("words", [["completion"], ["service", "print"]])
def test_commands_to_copy_keep_their_lines_in_the_help(words, capsys):
    assert run([*words, "--help"]) == 0
    out = capsys.readouterr().out
    assert "\\b" not in out
    assert any(line.strip().startswith(("zsh:", "systemctl")) for line in out.splitlines())


@pytest.mark.parametrize(
    "command", [["check"], ["restore"], ["torture"], ["inspect", "log"], ["storage", "audit"]]
)
def test_a_command_that_speaks_to_no_queue_manager_offers_no_url(command, capsys):
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--json" in out
    assert "--url" not in out


def test_a_url_is_global_and_means_nothing_to_a_command_that_needs_none(tmp_path, capsys):
    at = ["--data", str(tmp_path)]
    said = [
        (run(["check", *at, *url]), capsys.readouterr())
        for url in ([], ["--url", "dray://127.0.0.1:1"])
    ]
    assert said[0] == said[1]


def test_an_error_is_one_line_with_its_code():
    error = QueueNotFound("there is no queue\n  'orders'", queue="orders")
    assert one_line(error) == r"dray: queue-not-found: there is no queue\n 'orders'"


def test_an_error_ends_with_the_status_of_its_class(capsys, tmp_path):
    missing = tmp_path / "missing"
    status = run(["send", "orders", str(missing)])
    assert status == every_error()["source-unreadable"].exit_status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"dray: source-unreadable: {missing} cannot be read")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_the_version_needs_nothing_for_terminals():
    seen = _modules_after("from dray.cli import main; main(['--version'])")
    assert not {"click", "rich", "asyncio"} & seen


@pytest.mark.slow
@pytest.mark.parametrize("module", ["dray", "dray.client.connections.session", "dray.cli.program"])
def test_an_interrupt_while_modules_are_loaded_is_one_line(module):
    code = f"""
import sys
from dray_program import main

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
sys.argv[1:] = ["queue", "list"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=200
    )
    # Within a command click ends the line of the terminal's ^C first.
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.removeprefix("\n") == "dray: interrupted\n"


@pytest.mark.slow
def test_sending_loads_neither_rich_nor_spark_nor_the_daemon():
    seen = _modules_after(
        "from dray.cli.program import run; run(['--url', 'dray://127.0.0.1:1', 'send', 'q', '-'])"
    )
    packages = {name.partition(".")[0] for name in seen}
    assert not {"rich", "pyspark", "pyarrow", "numpy", "asyncio"} & packages
    assert "dray.daemon" not in seen


def _modules_after(code):
    """The modules loaded when `code` has run and ended the process."""
    watch = (
        "import atexit, sys\n"
        "atexit.register(lambda: sys.stderr.write('\\nMODULES ' + ' '.join(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", watch + code],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=200,
    )
    return set(done.stderr.rpartition("MODULES ")[2].split())


@pytest.mark.parametrize(
    "words",
    [
        ["top", "--interval=nan"],
        ["top", "--interval=inf"],
        ["doctor", "--idle=nan"],
        ["deadletter", "list", "--max=" + "9" * 25],
        ["peek", "q", "--max=" + "9" * 25],
        ["access", "log", "--data=.", "--last=" + "9" * 25],
    ],
    ids=" ".join,
)
def test_a_number_with_which_nothing_can_be_done_is_misuse(words, capsys):
    assert run(words) == 2
    assert "Error: Invalid value for '--" in capsys.readouterr().err


def test_an_access_log_whose_path_is_too_long_is_an_error_of_the_store(capsys):
    assert run(["access", "log", "--data", "y" * 5_000]) == StoreError.exit_status
    assert capsys.readouterr().err.startswith("dray: store-error: ")
