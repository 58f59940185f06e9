"""What the pages say works, and what the code can tell is written as the code tells it."""

import importlib.metadata
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dray.cli.program import program
from dray.manager.notices import NoticeKind
from dray.testing.processes import READY_WITHIN_S
from tests.integration.commands import until
from tools import http_reference
from tools.check_docs import FENCE
from tools.write_reference import REFERENCE, command_line_page, errors_page, metrics_page

HOUSE = Path(__file__).resolve().parent.parent.parent
SECOND = "127.0.0.1:7341"
PAGES = ["README.md", "docs/tutorials/first-messages.md"]
BLOCK_WITHIN_S = 200


def blocks(page, language):
    """The code blocks of a page in one language, in their order."""
    text = (HOUSE / page).read_text()
    return [fence["body"] for fence in FENCE.finditer(text) if fence["language"] == language]


def test_the_page_of_errors_is_what_the_code_says():
    assert (REFERENCE / "errors.md").read_text() == errors_page(), "run tools/write_reference.py"


def test_the_page_of_metrics_is_what_the_code_says():
    assert (REFERENCE / "metrics.md").read_text() == metrics_page(), "run tools/write_reference.py"


def test_the_page_of_http_is_what_the_code_says():
    assert (REFERENCE / "http.md").read_text() == http_reference.page(), "run `make docs`"


def test_the_page_of_commands_is_what_the_program_says():
    assert (REFERENCE / "cli.md").read_text() == command_line_page(), "run tools/write_reference.py"


def test_the_readme_says_what_it_is_then_how_to_install_it_and_how_to_develop_it_at_the_end():
    text = (HOUSE / "README.md").read_text()
    titles = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [titles[1], titles[-1]] == ["Install", "Develop"]
    develop = blocks("README.md", "sh")[-1]
    commands = [line.split("#")[0].strip() for line in develop.splitlines()]
    assert commands == ["make demo", "make test"]
    assert "pip install ." in blocks("README.md", "sh")[0]


def test_a_package_index_shows_the_readme_with_links_that_lead_somewhere():
    shown = importlib.metadata.metadata("dray")
    links = re.findall(r"\]\(([^)]+)\)", shown.get_payload())
    targets = [link.partition("/blob/main/")[2] for link in links]
    assert len(links) > 20
    assert all(link.startswith("https://") for link in links), links
    assert all((HOUSE / each.partition("#")[0]).exists() for each in targets), targets


def test_the_package_names_its_license_and_where_it_is_kept():
    shown = importlib.metadata.metadata("dray")
    assert shown["License-Expression"] == "Apache-2.0"
    assert shown.get_all("License-File") == ["LICENSE"]
    assert "Apache License" in (HOUSE / "LICENSE").read_text()
    urls = dict(each.split(", ") for each in shown.get_all("Project-URL"))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= set(urls)


NAMED_OTHERWISE = {"otel": "spans"}
"""The module of an extra that is not named like it."""


def test_every_extra_installs_what_there_is_code_for():
    extras = importlib.metadata.metadata("dray").get_all("Provides-Extra")
    for extra in extras:
        name = NAMED_OTHERWISE.get(extra, extra)
        places = (HOUSE / "src" / "dray").rglob("*")
        assert any(each.name in {name, f"{name}.py"} for each in places), extra


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


def test_every_kind_of_warning_stands_on_the_page_of_configuration():
    page = (HOUSE / "docs/reference/configuration.md").read_text()
    rows = page.partition("| kind | what happened |")[2].splitlines()[1:]
    shown = [kind for row in rows for kind in re.findall(r"`([\w-]+)`", row.split("|")[1])]
    assert sorted(shown) == sorted(NoticeKind)


def test_the_page_of_all_pages_has_each_one_under_its_own_title():
    docs = HOUSE / "docs"
    listed = dict(
        re.findall(
            r"^\| \[([^]]+)\]\(([^)]+\.md)\)", (docs / "README.md").read_text(), re.MULTILINE
        )
    )
    kept = {"decisions", "measurements"}  # these have pages of their own that list them
    pages = {path for path in docs.rglob("*.md") if path.parent.name not in kept}
    assert {docs / target for target in listed.values()} >= pages - {docs / "README.md"}
    for title, target in listed.items():
        heading = (docs / target).read_text().partition("\n")[0].removeprefix("# ")
        assert heading.startswith(title) or target.startswith("../"), f"{target} is {heading!r}"


def test_no_word_stands_twice_in_the_glossary_and_all_stand_in_order():
    table = (HOUSE / "docs/glossary.md").read_text()
    rows = [row.split(", ") for row in re.findall(r"^\| (\w[^|]+?) \|", table, re.MULTILINE)][1:]
    words = [word for row in rows for word in row]
    assert len(words) == len(set(words))
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)


SEARCHED = (
    "ack",
    "broker",
    "consumer group",
    "dead-letter exchange",
    "nack",
    "offset",
    "redelivery",
    "rollback",
    "topic",
    "visibility timeout",
)


def test_the_glossary_has_the_words_that_people_search_for_and_leads_to_a_row():
    table = (HOUSE / "docs/glossary.md").read_text()
    rows = dict(re.findall(r"^\| (\w[^|]+?) \| (.*?) \|", table, re.MULTILINE))
    words = {word for row in rows for word in row.split(", ")}
    named = {word for told in rows.values() for word in re.findall(r"\*\*(.+?)\*\*", told)}
    assert set(SEARCHED) <= words
    assert named
    assert named <= words
    led = [told for told in rows.values() if re.search(r"\*see\*", told, re.IGNORECASE)]
    assert not [told for told in led if "**" not in told]


@pytest.fixture
def reader(tmp_path):
    """Somebody who types what a page says, in one directory."""
    typing = Reader(tmp_path)
    yield typing
    typing.stop()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_their_order(page, reader):
    reader.types(page)


@pytest.mark.slow
def test_the_tutorial_works_after_the_readme_in_the_same_directory(reader):
    for page in PAGES:
        reader.types(page)
        for block in blocks(page, "python"):
            _run([sys.executable, "-c", block], reader.folder, _environment(reader.folder))


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_python_of_a_page_works(page, tmp_path):
    for block in blocks(page, "python"):
        _run([sys.executable, "-c", block], tmp_path, _environment(tmp_path))


class Reader:
    """Types the blocks of pages; the addresses alone are ours, since others use those as well."""

    def __init__(self, folder):
        self.folder = folder
        self._environment = _environment(folder)
        self._managers = {}
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._second = f"127.0.0.1:{free.getsockname()[1]}"

    def types(self, page):
        """Each block of a page in its order; a queue manager that still runs is not begun anew."""
        for block in blocks(page, "sh"):
            if "make" in block or "pip install" in block:
                continue
            if block.startswith("dray serve"):
                if block not in self._managers:
                    self._serve(block)
                continue
            ours = block.replace(SECOND, self._second)
            _run(["bash", "-euo", "pipefail", "-c", ours], self.folder, self._environment)

    def stop(self):
        """End the queue managers."""
        for process in self._managers.values():
            process.terminate()
        for process in self._managers.values():
            process.wait(READY_WITHIN_S)

    def _serve(self, block):
        said = self.folder / f"said-{len(self._managers)}"
        with said.open("wb") as log:
            process = self._managers[block] = subprocess.Popen(
                ["bash", "-c", f"exec {block.replace(SECOND, self._second)}"],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )

        def ready():
            assert process.poll() is None, said.read_text()
            return " ready at " in said.read_text()

        until(ready, READY_WITHIN_S)


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


def _environment(folder):
    beside = Path(sys.executable).parent
    path = f"{beside}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "XDG_RUNTIME_DIR": str(folder)}
