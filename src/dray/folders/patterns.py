"""The files of a folder that are taken: include and exclude patterns, with rclone's meaning.

`*` matches within a name, `**` across names, `?` one character, `[a-z]` one of a class, `{a,b}` one
of several, and `{{...}}` holds a regular expression. A backslash takes the next character as it is.
A pattern that begins with `/` begins at the folder, any other one at any name in it. `name/` is a
folder with everything in it. The first rule that matches decides: the includes come before the
excludes, and if there is any include, everything that no rule matches is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from dray.errors import InvalidArgument

_STARS: Final = {1: "[^/]*", 2: ".*"}
_SPECIAL: Final = {"?": "[^/]", "{": "(?:", "}": ")"}
_UNPAIRED: Final = "[]\\"
_TOKEN: Final = re.compile(
    r"(?P<stars>\*+)|(?P<kinds>\[.[^\]]*\])|\{\{(?P<expression>.*?)\}\}"
    r"|\\(?P<plain>.)|(?P<one>.)",
    re.DOTALL,
)


class Patterns:
    """The rules of one run."""

    def __init__(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> None:
        """Read the patterns; raises `InvalidArgument` for one that cannot be read."""
        self._includes = [_compiled(each) for each in include]
        excluded = [f"{each}**" if each.endswith("/") else each for each in exclude]
        self._excludes = [_compiled(each) for each in excluded]
        self._whole_folders = [_compiled(each) for each in excluded if each.endswith("/**")]

    def take(self, path: str) -> bool:
        """Whether a file is taken; `path` is relative, with "/" between names."""
        if any(each.search(path) for each in self._includes):
            return True
        return not self._includes and not any(each.search(path) for each in self._excludes)

    def leave_out_folder(self, path: str) -> bool:
        """Whether no file of a folder can be taken, so that nobody needs to look into it."""
        within = f"{path}/"
        return not self._includes and any(each.search(within) for each in self._whole_folders)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_as_expression(pattern), re.DOTALL)
    except (ValueError, re.error) as error:
        raise InvalidArgument(
            f"the pattern {pattern!r} cannot be read: {error}; write it as rclone has it, such as"
            " '*.jpg' or '/raw/**'",
            argument="pattern",
        ) from error


def _as_expression(pattern: str) -> str:
    """Translate a pattern; raises ValueError."""
    made = ["^" if pattern.startswith("/") else "(?:^|/)"]
    in_braces = False
    for token in _TOKEN.finditer(pattern.removeprefix("/")):
        kind, text = str(token.lastgroup), token.group(str(token.lastgroup))
        if kind == "one" and text in "{}":
            if in_braces is (text == "{"):
                raise ValueError(f"a {text} is out of place")
            in_braces = text == "{"
        made.append(_translated(kind, text, in_braces=in_braces))
    if in_braces:
        raise ValueError("a { is not closed")
    return "".join(made) + r"\Z"


def _translated(kind: str, text: str, *, in_braces: bool) -> str:
    match kind:
        case "stars" if len(text) not in _STARS:
            raise ValueError("it has more than two stars in a row")
        case "stars":
            return _STARS[len(text)]
        case "kinds":
            return text
        case "expression":
            return f"(?:{text})"
        case "one" if text in _UNPAIRED:
            raise ValueError(f"a {text} is out of place")
        case "one" if text in _SPECIAL:
            return _SPECIAL[text]
        case "one" if text == "," and in_braces:
            return "|"
    return re.escape(text)
