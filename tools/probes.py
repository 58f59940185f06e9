"""Put probes into a checkout: they say which tests can tell a changed line from the line as it is.

The changed module and the module as it is are parsed, and compared. Around the difference, the
largest expression without side effects becomes a call of `probe_notes.differs`, which computes both
values; an expression that has side effects, or a statement, only notes that it is executed. So one
run of the tests serves all changes. Only tests that a probe names can notice the change.

Lines that run at import (constants, defaults of arguments) have no probe: no test is named then.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

NOTES = "dray_probe_notes"
_PURE = (
    ast.Attribute,
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.Constant,
    ast.IfExp,
    ast.List,
    ast.Name,
    ast.Slice,
    ast.Starred,
    ast.Subscript,
    ast.Tuple,
    ast.UnaryOp,
)
_NO_VALUES = (ast.Slice, ast.Starred)
"""They stand inside of an expression and are none."""
_PURE_CALLS = frozenset(
    {
        *("abs", "all", "any", "bool", "bytes", "divmod", "frozenset", "get", "int"),
        *("from_bytes", "isinstance", "to_bytes"),
        *("len", "list", "max", "min", "range", "set", "sorted", "str", "sum", "tuple"),
    }
)
_PURE_BEGINNINGS = ("has_", "is_", "_is_", "_has_")


class _Step(NamedTuple):
    """One step from a node to its child: in both trees it is the same."""

    parent: ast.AST
    changed: ast.AST
    field: str
    at: int | None

    def child(self, *, changed: bool = False) -> ast.AST:
        """The child in one of the trees."""
        found = getattr(self.changed if changed else self.parent, self.field)
        node: ast.AST = found if self.at is None else found[self.at]
        return node


class Probe(NamedTuple):
    """A place in the tree of a module as it is, and how it would be there."""

    number: int
    host: ast.AST
    changed: ast.expr | None
    """None if it cannot be asked without side effects."""
    truth: bool


def with_probes(text: str, changes: Iterable[tuple[int, str]]) -> tuple[str, list[int]]:
    """The text of a module with a probe for each change, and the numbers that have one.

    A change is its number and the whole text as it would be.
    """
    tree = ast.parse(text)
    found = [probe_of(tree, number, changed) for number, changed in changes]
    probes = [each for each in found if each is not None]
    if not probes:
        return text, []
    _Placing(probes).visit(tree)
    imported = ast.parse(f"import {NOTES}").body
    first = next(at for at, each in enumerate(tree.body) if not _comes_first(each))
    tree.body[first:first] = imported
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n", [each.number for each in probes]


def probe_of(tree: ast.Module, number: int, changed: str) -> Probe | None:
    """The probe for a change; none if the line runs at import, or no expression can be asked."""
    try:
        steps = list(_difference(tree, ast.parse(changed)))
    except SyntaxError:
        return None
    if not _in_function(steps) or any(isinstance(each.parent, ast.pattern) for each in steps):
        return None
    while steps and not isinstance(steps[-1].child(), ast.expr | ast.stmt):
        steps.pop()
    if not steps:
        return None
    smallest = steps[-1]
    if isinstance(smallest.child(), ast.stmt) or not _is_asked(smallest):
        return _where_it_runs(steps, number)
    last = smallest
    for step in reversed(steps):
        if not _is_asked(step):
            break
        if not isinstance(step.child(), _NO_VALUES):
            last = step
    value = last.child(changed=True)
    assert isinstance(value, ast.expr)
    truth = last.field in {"test", "ifs"} or isinstance(getattr(last.parent, "op", None), ast.Not)
    # The tree as it is becomes another one below; both copies stay as they are.
    return Probe(number, last.child(), copy.deepcopy(value), truth)


def _where_it_runs(steps: Sequence[_Step], number: int) -> Probe | None:
    """A note that the line runs: of the nearest expression that is read, or of its statement."""
    for step in reversed(steps):
        node = step.child()
        is_read = isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
        has_value = isinstance(node, _PURE) and not isinstance(node, _NO_VALUES)
        if isinstance(node, ast.stmt) or (has_value and is_read):
            return Probe(number, node, None, truth=False)
    return None


def _difference(before: ast.AST, after: ast.AST) -> Iterator[_Step]:
    """The way from the top to the smallest node that contains all that is different."""
    while True:
        steps = [
            _Step(before, after, field, at)
            for field, at, one, other in _children(before, after)
            if ast.dump(one) != ast.dump(other)
        ]
        alike = type(before) is type(after) and _own(before) == _own(after)
        if len(steps) != 1 or not alike:
            return
        (step,) = steps
        yield step
        before, after = step.child(), step.child(changed=True)


def _children(
    before: ast.AST, after: ast.AST
) -> Iterator[tuple[str, int | None, ast.AST, ast.AST]]:
    """The children that both nodes have, in pairs; of lists that are not equally long, none."""
    for field in before._fields:
        one, other = getattr(before, field, None), getattr(after, field, None)
        if isinstance(one, ast.AST) and isinstance(other, ast.AST):
            yield field, None, one, other
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            for at, (first, second) in enumerate(zip(one, other, strict=True)):
                if isinstance(first, ast.AST) and isinstance(second, ast.AST):
                    yield field, at, first, second


def _own(node: ast.AST) -> list[object]:
    """What a node says besides its children."""
    values = [getattr(node, field, None) for field in node._fields]
    return [
        len(each) if isinstance(each, list) else each
        for each in values
        if not isinstance(each, ast.AST)
    ]


def _in_function(steps: Sequence[_Step]) -> bool:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(each.parent, functions) and each.field == "body" for each in steps)


def _is_asked(step: _Step) -> bool:
    """Whether an expression may be computed a second time, as it is and as it would be."""
    return all(_is_pure(step.child(changed=each)) for each in (False, True))


def _is_pure(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        known = name in _PURE_CALLS or name.startswith(_PURE_BEGINNINGS)
        inner = [node.func, *node.args, *(each.value for each in node.keywords)]
        return known and all(map(_is_pure, inner))
    if not isinstance(node, _PURE) or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    children = (each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
    return all(map(_is_pure, children))


class _Placing(ast.NodeTransformer):
    """Puts probes into the tree."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self._probes = probes

    def visit(self, node: ast.AST) -> ast.AST | list[ast.AST]:
        """Wrap a node that hosts probes, its children first."""
        ours = [each for each in self._probes if each.host is node]
        visited: ast.AST = self.generic_visit(node)
        if not ours:
            return visited
        if isinstance(visited, ast.stmt):
            return [*(ast.Expr(_call("reached", each.number)) for each in ours), visited]
        assert isinstance(visited, ast.expr)
        for each in ours:
            visited = self._wrapped(each, visited)
        return visited

    def _wrapped(self, probe: Probe, value: ast.expr) -> ast.expr:
        if probe.changed is None:
            return ast.IfExp(_call("reached", probe.number), value, ast.Constant(None))
        nothing = ast.arguments([], [], None, [], [], None, [])
        asked = _call("differs", probe.number, value, ast.Lambda(nothing, probe.changed))
        if probe.truth:
            asked.keywords.append(ast.keyword("truth", ast.Constant(value=True)))
        return asked


def _call(name: str, number: int, *arguments: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(NOTES, ast.Load()), name, ast.Load())
    return ast.Call(function, [ast.Constant(number), *arguments], [])


def _comes_first(node: ast.stmt) -> bool:
    """Whether a statement stands before all others: the docstring, imports from the future."""
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text or (isinstance(node, ast.ImportFrom) and node.module == "__future__")
