"""Check the documentation: links lead somewhere, Python compiles, modules that it names are there.

    python tools/check_docs.py [FILE.md ...]      with none named, all pages of the repository

A link to a heading is checked against the headings of the file it leads to. Links to other sites
are left alone: the check must give the same answer without a network. A module is named by the end
of its path, as in `daemon/turns.py`; decisions and changes may name what was there in their time.
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

HOUSE = Path(__file__).resolve().parent.parent
FENCE = re.compile(
    r"^(?P<indent>[ ]*)(?P<fence>`{3,}|~{3,})[ ]*(?P<language>\w*)[^\n]*\n"
    r"(?P<body>.*?)"
    r"^(?P=indent)(?P=fence)[ ]*$",
    re.DOTALL | re.MULTILINE,
)
INLINE_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
MODULE = re.compile(r"`(?P<path>[\w/.]+\.py)\b[^`\n]*`")
TREES = ("src", "tests", "benches", "tools")
OF_THEIR_TIME = ("docs/decisions/", "docs/measurements/", "CHANGELOG.md")
LINK = re.compile(r"\[[^\]]*\]\(\s*<?(?P<target>[^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}[ ]+(?P<title>.+?)[ ]*#*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def main(arguments: list[str]) -> int:
    """Print each complaint on a line; the exit status says whether there was one."""
    pages = [Path(name).resolve() for name in arguments] or documentation()
    complaints = [line for page in pages for line in check(page)]
    for line in complaints:
        print(line)
    print(f"docs: {len(pages)} pages, {len(complaints)} complaints")
    return 1 if complaints else 0


def documentation() -> list[Path]:
    """Every page of the repository: those at the top, and everything below docs."""
    return sorted([*HOUSE.glob("*.md"), *(HOUSE / "docs").rglob("*.md")])


def check(page: Path) -> Iterator[str]:
    """What is wrong with one page, as `page:line: sentence`."""
    text = page.read_text("utf-8")
    name = page.relative_to(HOUSE) if page.is_relative_to(HOUSE) else page
    for fence in FENCE.finditer(text):
        if fence["language"] in {"python", "py"} and (problem := uncompilable(fence["body"])):
            yield f"{name}:{line_of(text, fence.start())}: Python does not compile: {problem}"
    prose = without_code(text)
    for link in LINK.finditer(prose):
        if problem := broken(page, unquote(link["target"])):
            yield f"{name}:{line_of(prose, link.start())}: {problem}"
    if not str(name).startswith(OF_THEIR_TIME):
        told = without_fences(text)
        for module in MODULE.finditer(told):
            if not is_there(module["path"]):
                yield f"{name}:{line_of(told, module.start())}: no module {module['path']}"


def uncompilable(block: str) -> str | None:
    """Why a block does not compile; `await` may stand at its top, as in a reader's notebook."""
    try:
        compile(textwrap.dedent(block), "block", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as problem:
        return problem.msg
    return None


def broken(page: Path, target: str) -> str | None:
    """Why a link leads nowhere, if it does."""
    if ELSEWHERE.match(target):
        return None
    path, _, anchor = target.partition("#")
    goal = (page.parent / path) if path else page
    if path.startswith("/") or not goal.exists():
        return f"nothing at {target}"
    if anchor and goal.suffix == ".md" and anchor not in anchors(goal.read_text("utf-8")):
        return f"no heading for {target}"
    return None


def is_there(path: str) -> bool:
    """Whether the path of a module of ours ends so."""
    return any(each == path or each.endswith(f"/{path}") for each in modules())


@cache
def modules() -> frozenset[str]:
    """The paths of all modules, from the top of the repository."""
    found = (path for tree in TREES for path in (HOUSE / tree).rglob("*.py"))
    return frozenset(path.relative_to(HOUSE).as_posix() for path in found)


def anchors(text: str) -> set[str]:
    """The names of a page's headings in links: lower case, dashes for spaces, no punctuation."""
    found: set[str] = set()
    for heading in HEADING.finditer(without_fences(text)):
        slug = re.sub(r"[^\w\- ]", "", heading["title"].lower()).replace(" ", "-")
        again = 1
        while (name := slug if again == 1 else f"{slug}-{again - 1}") in found:
            again += 1
        found.add(name)
    return found


def without_fences(text: str) -> str:
    """The page with its code blocks emptied and every line still in its place."""
    return FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), text)


def without_code(text: str) -> str:
    """The same, without code inside lines: brackets in code are not links."""
    return INLINE_CODE.sub("", without_fences(text))


def line_of(text: str, position: int) -> int:
    """The line number of a position."""
    return text.count("\n", 0, position) + 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
