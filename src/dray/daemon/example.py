"""A file of options for `dray serve` in which each option stands with its default."""

from __future__ import annotations

from typing import Final

import msgspec

from dray.daemon.config import ServeOptions

_OPENING: Final = """\
# Options of `dray serve --config FILE`. Every option that is a comment has the value that it shows.
# docs/reference/configuration.md says what each means. `dray config check FILE` checks this file.

data = "dray-data"
"""
_ACCESS: Final = """\
# Rules of access: who may do what, for callers that are not the owner.
# [[access]]
# who = ["user:ada"]
# queues = ["orders"]
# may = ["send", "peek", "receive"]
"""
_TABLES: Final = ("data", "access")


def example_file() -> str:
    """The text of the file, in TOML."""
    lines = []
    for field in msgspec.structs.fields(ServeOptions):
        if field.name in _TABLES:
            continue
        default = (
            field.default
            if field.default is not msgspec.NODEFAULT
            else field.default_factory()
            if field.default_factory is not msgspec.NODEFAULT
            else None
        )
        lines.append(f"# {field.name} = {_value(default)}")
    return "\n".join([_OPENING, *lines, "", _ACCESS])


def _value(value: object) -> str:
    """A value in TOML; an option without one is shown as a text that is empty."""
    match value:
        case None:
            return '""  # not set'
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case dict():
            return "{}"
        case str():
            return f'"{value}"'
    return str(value)
