"""Sources parsed once for all house tests of a process: most of them read all of `src`."""

from __future__ import annotations

import ast
from functools import cache


@cache
def nodes(source: str) -> tuple[ast.AST, ...]:
    """Every node of a source in the order of `ast.walk`; the module comes first."""
    return tuple(ast.walk(ast.parse(source)))


def module(source: str) -> ast.Module:
    """The source as a whole."""
    first = nodes(source)[0]
    assert isinstance(first, ast.Module)
    return first
