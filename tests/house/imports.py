"""Which file of `src` imports which, and the circles among them.

Every import counts: also those for types only and those inside a function. A name that a package
hands on from its `__init__.py` counts as an import of that `__init__.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.house.parsed import nodes


def imports(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """For each path (`dray/wire/head.py`) the paths among `sources` that it imports."""
    modules = {module_name(path): path for path in sources}
    return {
        path: {
            modules[name]
            for name in _imported_names(path, source, modules)
            if name in modules and modules[name] != path
        }
        for path, source in sources.items()
    }


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The largest sets of files in which each file reaches every other one, sorted."""
    reached = {path: _reached_from(path, graph) for path in graph}
    found: dict[str, list[str]] = {}
    for path in sorted(graph):
        together = sorted(other for other in reached[path] if path in reached[other])
        if together:
            found[together[0]] = together
    return list(found.values())


def module_name(path: str) -> str:
    """`dray/wire/head.py` is `dray.wire.head`, and `dray/wire/__init__.py` is `dray.wire`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported_names(path: str, source: str, modules: Mapping[str, str]) -> Iterator[str]:
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            begins = origin(path, node)
            for alias in node.names:
                submodule = f"{begins}.{alias.name}"
                yield submodule if submodule in modules else begins


def origin(path: str, node: ast.ImportFrom) -> str:
    """The module that an import in the file at `path` names, also if it names it by dots."""
    if not node.level:
        return node.module or ""
    package = path.split("/")[: -node.level]
    return ".".join([*package, *([node.module] if node.module else [])])


def _reached_from(path: str, graph: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = [path]
    while waiting:
        new = graph[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached
