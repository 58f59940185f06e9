"""What the pages say works, and what the code can tell is written as the code tells it."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dray.cli.demo.processes import READY_WITHIN_S
from dray.cli.program import program
from tests.integration.commands import until
from tools.check_docs import FENCE
from tools.write_reference import REFERENCE, command_line_page, errors_page

HOUSE = Path(__file__).resolve().parent.parent.parent
SERVE = "dray serve --data queues\n"
PAGES = ["README.md", "docs/tutorials/first-messages.md"]
BLOCK_WITHIN_S = 200


def blocks(page, language):
    """The code blocks of a page in one language, in their order."""
    text = (HOUSE / page).read_text()
    return [fence["body"] for fence in FENCE.finditer(text) if fence["language"] == language]


def test_the_page_of_errors_is_what_the_code_says():
    assert (REFERENCE / "errors.md").read_text() == errors_page(), "run tools/write_reference.py"


def test_the_page_of_commands_is_what_the_program_says():
    assert (REFERENCE / "cli.md").read_text() == command_line_page(), "run tools/write_reference.py"


def test_the_two_commands_come_first_in_the_readme():
    first = blocks("README.md", "sh")[0]
    assert [line.split("#")[0].strip() for line in first.splitlines()] == ["make demo", "make test"]


UNREADABLE = (
    "Let in only who shows",
    "who asks shows one first",
    "has no lock: anyone",
    "the listener is made sure of",
)
"""Sentences that readers could not make sense of, and quoted."""


def test_the_sentences_that_readers_did_not_understand_are_gone():
    sources = (HOUSE / "src").rglob("*.py")
    pages = [HOUSE / "README.md", *(HOUSE / "docs").rglob("*.md")]
    for path in [*sources, *pages]:
        text = " ".join(path.read_text("utf-8").split())
        assert not [each for each in UNREADABLE if each in text], path


def test_every_make_target_that_a_page_names_is_there():
    targets = set(re.findall(r"^([a-z]+):", (HOUSE / "Makefile").read_text(), re.MULTILINE))
    for page in [HOUSE / "README.md", *(HOUSE / "docs").rglob("*.md")]:
        named = set(
            re.findall(r"\bmake ([a-z]+)\b(?=[ `\n]*(?:ARGS|LOSSY|FILES|`|#|\n))", page.read_text())
        )
        assert named <= targets, page


def command_lines():
    """Every `dray ...` in a block of a page that was written by hand, with the page."""
    pages = {*(HOUSE / "docs").rglob("*.md"), HOUSE / "README.md"} - {REFERENCE / "cli.md"}
    for page in sorted(pages):
        for fence in FENCE.finditer(page.read_text()):
            for line in fence["body"].splitlines():
                for piece in re.split(r" \|\|? ", line):
                    if piece.startswith("dray "):
                        yield page, piece


def understood(line):
    """The command that a line means, with its options read and nothing of it done."""
    command, name, words = program, "dray", shlex.split(line, comments=True)[1:]
    context = None
    while True:
        context = command.make_context(name, words, parent=context)
        if not isinstance(command, click.Group):
            return command
        name, command, words = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )


def test_every_command_line_of_a_page_is_understood():
    lines = list(command_lines())
    assert len(lines) > 30, "the pages show how it is done"
    for page, line in lines:
        try:
            understood(line)
        except click.ClickException as error:
            pytest.fail(f"{page.name}: {line}: {error.format_message()}")


@pytest.mark.parametrize("line", ["dray queue make x", "dray send", "dray serve --date queues"])
def test_a_command_line_that_is_none_is_not_understood(line):
    with pytest.raises(click.ClickException):
        understood(line)


def test_no_word_stands_twice_in_the_glossary_and_all_stand_in_order():
    table = (HOUSE / "docs/glossary.md").read_text()
    rows = [row.split(", ") for row in re.findall(r"^\| (\w[^|]+?) \|", table, re.MULTILINE)][1:]
    words = [word for row in rows for word in row]
    assert len(words) == len(set(words))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_their_order(page, tmp_path):
    """The manager is started as the page says; address and port alone are ours."""
    environment = _environment()
    manager = None
    try:
        for block in blocks(page, "sh"):
            if "make" in block:
                continue
            if block == SERVE:
                manager = _serve(tmp_path, environment)
                continue
            _run(["bash", "-euo", "pipefail", "-c", block], tmp_path, environment)
    finally:
        if manager is not None:
            manager.terminate()
            manager.wait(READY_WITHIN_S)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_works(page, tmp_path):
    for block in blocks(page, "python"):
        _run([sys.executable, "-c", block], tmp_path, _environment())


def _serve(folder, environment):
    said = folder / "said"
    with said.open("wb") as log:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {SERVE}"], cwd=folder, env=environment, stdout=log, stderr=log
        )

    def address():
        assert process.poll() is None, said.read_text()
        found = re.search(r"dray://\S+", said.read_text())
        return found and found[0]

    environment["DRAY_URL"] = until(address, READY_WITHIN_S)
    return process


def _run(command, folder, environment):
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=BLOCK_WITHIN_S,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"


def _environment():
    beside = Path(sys.executable).parent
    path = f"{beside}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "DRAY_LISTEN": "127.0.0.1:0"}
