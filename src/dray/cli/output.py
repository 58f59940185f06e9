"""Standard output of commands: a table for people, JSON for programs.

On a terminal a table is drawn; anywhere else its columns are aligned plainly and never cut, so that
`grep` and `awk` find what they look for.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
import msgspec


def print_json(value: object) -> None:
    """One JSON value on one line."""
    try:
        told: bytes | str = msgspec.json.encode(value, enc_hook=str)
    except UnicodeEncodeError:
        # A path with bytes that are no UTF-8: they are told as `os.fsdecode` gives them.
        told = json.dumps(msgspec.to_builtins(value, enc_hook=str))
    click.echo(told)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of texts; columns whose name ends in a space are aligned to the right."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _print_drawn(columns, cells)
    else:
        _print_plain(columns, cells)


def print_record(pairs: Mapping[str, str]) -> None:
    """Names and values, one pair a line."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        click.echo(f"{name:<{width}}  {printable(value)}".rstrip())


def printable(text: str) -> str:
    """A text of others, such as a label, that keeps to its line and commands no terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def printable_path(path: str) -> str:
    """A path on one line; bytes that are no UTF-8 are shown as escapes."""
    return printable(path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def _print_drawn(columns: Sequence[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(header_style="bold")
    for column in columns:
        justify: Any = "right" if column.endswith(" ") else "left"
        table.add_column(column.strip(), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    Console().print(table)


def _print_plain(columns: Sequence[str], rows: list[list[str]]) -> None:
    names = [column.strip() for column in columns]
    widths = [max(map(len, cells)) for cells in zip(names, *rows, strict=True)]
    for row in [names, *rows]:
        padded = (
            cell.rjust(width) if column.endswith(" ") else cell.ljust(width)
            for cell, width, column in zip(row, widths, columns, strict=True)
        )
        click.echo("  ".join(padded).rstrip())


def standard_output_is_closed() -> bool:
    """Whether the caller closed it, so that nobody would see the output."""
    return sys.stdout.name == os.devnull
