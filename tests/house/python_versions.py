"""What the code may use of Python: everything of 3.11.0, and nothing that came later.

vermin knows which minor version brought a feature. It does not know which *patch* version did:
Python puts security features into released versions, and Debian 12 ships 3.11.2. The tables below
name those that came after 3.11.0, from the notes "Changed in version 3.11.x" of the library.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TARGET = "3.11"

LATER_ARGUMENTS = {
    ("extract", "filter"): "3.11.4",
    ("extractall", "filter"): "3.11.4",
    ("unpack_archive", "filter"): "3.11.4",
    ("getaddresses", "strict"): "3.11.10",
    ("parseaddr", "strict"): "3.11.10",
    ("EmailPolicy", "verify_generated_headers"): "3.11.10",
    ("HTMLParser", "scripting"): "3.11.14",
}
"""(function or method, keyword argument): the version that brought it."""

LATER_NAMES = {
    "data_filter": "3.11.4",
    "fully_trusted_filter": "3.11.4",
    "tar_filter": "3.11.4",
    "GetReparseDeferralEnabled": "3.11.9",
    "SetReparseDeferralEnabled": "3.11.9",
    "verify_generated_headers": "3.11.10",
    "ALLOW_MISSING": "3.11.13",
    "LinkFallbackError": "3.11.13",
}
"""Attribute or imported name: the version that brought it."""

_LATER_WORDS = [*LATER_ARGUMENTS, *((name,) for name in LATER_NAMES)]
"""Words of which a source has all of a row, or none of the features."""


def later_patches(path: str, source: str) -> Iterator[str]:
    """A feature of a later 3.11.x is missing where 3.11.0 is promised."""
    if not any(all(word in source for word in words) for words in _LATER_WORDS):
        return
    for node in ast.walk(ast.parse(source)):
        for name, version in _later_in(node):
            yield f"{path}:{node.lineno}: {name} came with Python {version}"


def _later_in(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), keywords=keywords):
            for each in keywords:
                if version := LATER_ARGUMENTS.get((called, each.arg or "")):
                    yield f"{called}({each.arg}=...)", version
        case ast.Attribute(attr=name) if name in LATER_NAMES:
            yield name, LATER_NAMES[name]
        case ast.ImportFrom(names=names):
            for each in names:
                if each.name in LATER_NAMES:
                    yield each.name, LATER_NAMES[each.name]
        case _:
            return


def later_minors(*paths: Path) -> list[str]:
    """What vermin says against the target version, line by line; empty if nothing."""
    options = [f"--target={TARGET}-", "--violations", "--quiet", "--no-tips", "--no-config-file"]
    command = [Path(sys.executable).with_name("vermin"), *options, *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    lines = (done.stdout + done.stderr).splitlines()
    return lines or [f"vermin ended with {done.returncode}"] if done.returncode else []
