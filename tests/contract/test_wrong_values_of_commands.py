"""No value of any option or argument of a command makes the program fail in its own words."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from dray.cli.program import program, run

VALUES = [
    "", " ", "x", "-1", "nan", "inf", "1e400", "9" * 25, "\udcff", "a\nb", "y" * 5_000,
    "dray://h:x/q", "dray://127.0.0.1:1/q", ";", "\\", "1.5", "0",
]  # fmt: skip
LONG = {"console", "demo", "torture", "serve", "spark"}
"""What these do with what makes sense takes long; their options have tests of their own."""


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, with the words that name it."""
    pending: list[tuple[tuple[str, ...], click.Command]] = [((), program)]
    while pending:
        words, command = pending.pop()
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                assert found is not None
                if name not in LONG:
                    pending.append(((*words, name), found))
        else:
            yield words, command


COMMANDS = dict(commands())


@pytest.mark.slow
@pytest.mark.parametrize("words", sorted(COMMANDS), ids=" ".join)
def test_no_value_of_a_command_ends_in_a_traceback(addresses, tmp_path, monkeypatch, words):
    standing = tmp_path / "standing"
    standing.mkdir()
    monkeypatch.chdir(standing)
    monkeypatch.setenv("DRAY_TRANSFERS", str(tmp_path / "transfers"))
    command = COMMANDS[words]
    names = {each.name for each in command.params}
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.is_flag:
            continue
        for value in VALUES:
            if parameter.name in {"timeout", "wait"} and value not in {"", "x", "-1", "nan", "0"}:
                continue
            said = ["--url", addresses["tcp"], *words]
            if isinstance(parameter, click.Option):
                said.append(f"{parameter.opts[-1]}={value}")
            if "timeout" in names and parameter.name != "timeout":
                said.append("--timeout=0")
            given = [value if each is parameter else "q1" for each in arguments]
            status = run([*said, "--", *given])
            assert 0 <= status < 128, (said, given)
