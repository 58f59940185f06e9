"""How error sentences name a wrong argument: what it should be, and what was given."""

from __future__ import annotations

import re
from typing import Final

from dray.errors import InvalidArgument

_SHOWN_CHARACTERS_MAX: Final = 80
"""Characters of a value that an error sentence shows."""
_BEFORE_HOST: Final = re.compile(r"//[^/?#]*@")
_AFTER_PATH: Final = re.compile(r"([?#]).*", re.DOTALL)
"""Parts of a URL that no address has: a token that somebody writes there is shown to nobody."""


def shown_address(text: object) -> str:
    """Write an address on one short line, without what may be a token that somebody put there."""
    if not isinstance(text, str) or "//" not in text:
        return shown(text)
    return shown(_AFTER_PATH.sub(r"\1...", _BEFORE_HOST.sub("//...@", text)))


def shown(value: object) -> str:
    """Write any value on one short line, even if its own `repr` fails."""
    try:
        # Only the beginning of a long text is written.
        text = repr(value[: _SHOWN_CHARACTERS_MAX + 1] if type(value) in {str, bytes} else value)  # type: ignore[index]
    except Exception as error:  # noqa: BLE001 - whatever the caller's own `__repr__` raises
        return f"an object of {_named(type(value))} whose repr raises {type(error).__name__}"
    text = " ".join(text.split()) if "\n" in text else text
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}..."


def no_sense(name: str, expected: str, value: object) -> InvalidArgument:
    """The error for a wrong argument: its name, the expected value, the given value."""
    return InvalidArgument(f"{name} is {expected}, not {shown(value)}", argument=name)


def _named(kind: type) -> str:
    return f"type {kind.__name__}"
