"""Templates: every value is escaped, and a name that nobody gave is an error."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from dray.model.words import size_text, time_text

_CODE: Final = re.compile(r"`([^`]*)`")
_INVISIBLE: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and marks that turn the direction of the text behind them: with such a mark a
label would look like another one."""
_HERE: Final = Path(__file__).parent
STATIC: Final = _HERE / "static"


@cache
def templates() -> Environment:
    """The templates of the console, loaded once."""
    found = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    found.filters |= {
        "size": size_text,
        "count": "{:,}".format,
        "moment": time_text,
        "ago": _ago,
        "capitalize_first": _capitalized,
        "as_sentence": as_sentence,
    }
    found.globals |= {"asset": _asset}
    return found


def _visible(value: object) -> object:
    """A value as a page shows it. The filter `e` leaves one as it is, for a field of a form."""
    if type(value) is str and not value.isprintable():
        return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", value)
    return value


def _capitalized(sentence: str) -> str:
    """An error as a sentence of its own: its first letter large, the rest as it is."""
    return sentence[:1].upper() + sentence[1:]


def as_sentence(words: str) -> Markup:
    """An error as a sentence of its own, with its end; what stands in backticks is code."""
    end = "" if words.endswith((".", "?", "!")) else "."
    pieces = _CODE.split(_INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", _capitalized(words)) + end)
    return Markup("").join(
        Markup("<code>{}</code>").format(each) if at % 2 else each for at, each in enumerate(pieces)
    )


def _ago(seconds: float | None) -> str:
    """A span in one unit, as people say it."""
    if seconds is None:
        return ""
    for unit, span in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= span:
            return f"{int(seconds // span)} {unit}"
    return f"{int(seconds)} s"


@cache
def _asset(name: str) -> str:
    """The address of a static file; another content has another address."""
    digest = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/static/{name}?{digest}"
