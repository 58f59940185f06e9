"""Change single lines of the source at random, and see whether a test fails.

    python tools/mutations.py [--count 30] [--seed N] [--packages store,manager] [--stages N]
        [--reached FILE] [--list]

Each change is made in a checkout of the last commit that is removed at the end; the work tree stays
as it is. The test files run in stages, the likeliest and cheapest first, each file once, until the
first failure: the module's own tests, those of its folder, those that import the module, those of
its package, then the rest. A test counts if it fails twice. A change that no stage notices is
printed with its line: write a test for it, or say why the line means the same.
`--reached` names a file of coverage.py, written with `dynamic_context = test_function`. A stage
with the tests that reach the line, those of its folder first, then stands for the next three.
The exit status is 1 if a change survived.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import coverage
import pytest

HOUSE = Path(__file__).resolve().parent.parent
PACKAGES = ("delivery", "large", "transfer", "wire", "store", "manager")
STAGE_S = 1800
# A changed loop may build a list without an end and take the machine's memory from everybody.
ADDRESSES_MAX = 12 << 30
SWAPPED = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.And: (" and ", " or "),
    ast.Or: (" or ", " and "),
}
# Not `del` of a local name: it only says that an argument is not used.
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Delete, ast.Continue, ast.Raise)


class Mutation(NamedTuple):
    """One line, as it is and as it would be."""

    path: str
    line: int
    before: str
    after: str


class Asked(argparse.Namespace):
    """The arguments."""

    count: int
    seed: int
    packages: str
    stages: int | None = None
    reached: str = ""
    list: bool


def main(arguments: list[str]) -> int:
    """Try as many changes as asked for; say for each what noticed it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--packages", default=",".join(PACKAGES))
    parser.add_argument("--stages", type=int, help="run only so many stages, the likeliest first")
    parser.add_argument("--reached", default="", help="coverage data that say which tests reach it")
    parser.add_argument("--list", action="store_true", help="print the changes, run nothing")
    asked = parser.parse_args(arguments, Asked())
    chance = random.Random(asked.seed)  # noqa: S311 - repeatable, not secret
    found = sorted({each for name in asked.packages.split(",") for each in of_package(name)})
    chosen = chance.sample(found, min(asked.count, len(found)))
    print(f"seed {asked.seed}: {len(chosen)} of {len(found)} changes", flush=True)
    if asked.list:
        for each in chosen:
            print(told(each))
        return 0
    survived = 0
    with tempfile.TemporaryDirectory(prefix="dray-mutations-") as folder:
        checkout = Path(folder) / "checkout"
        _git("worktree", "add", "--quiet", "--detach", str(checkout), "HEAD")
        try:
            for number, each in enumerate(chosen, 1):
                began = time.monotonic()
                stage = noticed_by(checkout, each, asked)
                survived += not stage
                verdict = f"noticed by {stage}" if stage else "SURVIVED"
                verdict = f"{verdict} ({time.monotonic() - began:.0f} s)"
                print(f"{number}. {verdict}: {told(each)}", flush=True)
        finally:
            _git("worktree", "remove", "--force", str(checkout))
    print(f"{len(chosen) - survived} of {len(chosen)} changes were noticed, seed {asked.seed}")
    return 1 if survived else 0


def told(mutation: Mutation) -> str:
    """The change in words."""
    place = f"{mutation.path}:{mutation.line}"
    return f"{place}: {mutation.before.strip()}  ->  {mutation.after.strip()}"


def of_package(name: str) -> Iterator[Mutation]:
    """Every change that can be made in a package of `dray`."""
    for path in sorted((HOUSE / "src" / "dray" / name).rglob("*.py")):
        text = path.read_text("utf-8")
        yield from in_text(path.relative_to(HOUSE).as_posix(), text)


def in_text(path: str, text: str) -> Iterator[Mutation]:
    """Every change that can be made in one module, docstrings and imports left out."""
    lines = text.encode().split(b"\n")
    for node in ast.walk(ast.parse(text)):
        for line, first, last, new in _replacements(node, lines):
            before = lines[line - 1]
            after = before[:first] + new + before[last:]
            if after != before:
                yield Mutation(path, line, before.decode(), after.decode())


def _replacements(node: ast.AST, lines: list[bytes]) -> Iterator[tuple[int, int, int, bytes]]:
    """Line, first and last column, and the new text."""
    if isinstance(node, ast.Compare):
        yield from _operator(node.left, node.ops[0], node.comparators[0], lines)
    elif isinstance(node, ast.BoolOp):
        yield from _operator(node.values[0], node.op, node.values[1], lines)
    elif isinstance(node, ast.BinOp):
        yield from _operator(node.left, node.op, node.right, lines)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.lineno, node.col_offset, node.operand.col_offset, b""
    elif isinstance(node, ast.Constant) and type(node.value) in {int, bool}:
        new = str(not node.value if isinstance(node.value, bool) else int(str(node.value)) + 1)
        yield node.lineno, node.col_offset, node.end_col_offset or 0, new.encode()
    elif isinstance(node, SIMPLE) and node.lineno == node.end_lineno:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        unused = isinstance(node, ast.Delete) and isinstance(node.targets[0], ast.Name)
        if not text and not unused and node.col_offset:
            yield node.lineno, node.col_offset, node.end_col_offset or 0, b"pass"


def _operator(
    left: ast.expr, operator: ast.AST, right: ast.expr, lines: list[bytes]
) -> Iterator[tuple[int, int, int, bytes]]:
    if type(operator) not in SWAPPED or left.end_lineno != right.lineno:
        return
    old, new = SWAPPED[type(operator)]
    first = lines[right.lineno - 1].find(old.encode(), left.end_col_offset or 0, right.col_offset)
    if first >= 0:
        yield right.lineno, first, first + len(old), new.encode()


def noticed_by(checkout: Path, mutation: Mutation, asked: Asked) -> str:
    """Make the change, run the stages, undo it; the stage and the test that failed, or nothing."""
    path = checkout / mutation.path
    text = path.read_text("utf-8")
    lines = text.split("\n")
    reached = list(reaching(checkout, mutation, asked.reached)) if asked.reached else []
    lines[mutation.line - 1] = mutation.after
    path.write_text("\n".join(lines), "utf-8")
    ran: set[str] = set()
    try:
        most = max(2, asked.stages - 2) if reached and asked.stages else asked.stages
        for stage, files in islice(stages(checkout, mutation.path, reached), most):
            new = [each for each in files if each not in ran]
            ran.update(new)
            failed = failure(checkout, new) if new else ""
            if failed:
                return f"{stage}: {failed}"
    finally:
        path.write_text(text, "utf-8")
        # A process of a test may have compiled the change; one of the same length would stay.
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
    return ""


def reaching(checkout: Path, mutation: Mutation, reached: str) -> Iterator[str]:
    """The tests that execute the line; a whole file if the name of its test is not found in it."""
    data = coverage.CoverageData(reached)
    data.read()
    ends = f"/{mutation.path}"
    contexts: set[str] = set()
    for measured in data.measured_files():
        if measured.endswith(ends):
            contexts.update(data.contexts_by_lineno(measured).get(mutation.line, ()))
    for each in sorted(contexts - {""}):
        module, _, name = each.rpartition(".")
        file = f"{module.replace('.', '/')}.py"
        if (checkout / file).is_file():
            known = f"def {name}(" in (checkout / file).read_text("utf-8")
            yield f"{file}::{name}" if known else file


def stages(
    checkout: Path, path: str, reached: Sequence[str] = ()
) -> Iterator[tuple[str, list[str]]]:
    """The test files for a changed module, by stages, the likeliest and cheapest first."""
    *folders, name = path.removeprefix("src/dray/").split("/")
    own = "/".join(["tests/unit", *folders])
    yield "its own tests", _test_files(checkout, f"{own}/test_{name}")
    if reached:
        near = sorted(reached, key=lambda each: not each.startswith(f"{own}/"))
        yield "the tests that reach it", near
    else:
        yield "the tests of its folder", _test_files(checkout, own)
        module = ".".join(["dray", *folders, name.removesuffix(".py")])
        unit = _test_files(checkout, "tests/unit")
        importing = [each for each in unit if module in (checkout / each).read_text("utf-8")]
        yield "the unit tests that import it", importing
        package = _test_files(checkout, f"tests/unit/{folders[0]}", "tests/formats")
        yield "the unit tests of its package", package
    for folder in ("simulation", "contract", "property", "crash", "unit", "integration", "docs"):
        yield f"tests/{folder}", _test_files(checkout, f"tests/{folder}")


def _test_files(checkout: Path, *places: str) -> list[str]:
    found: list[str] = []
    for place in places:
        path = checkout / place
        files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
        found += [each.relative_to(checkout).as_posix() for each in files]
    return found


def failure(checkout: Path, tests: list[str]) -> str:
    """The first test that fails and fails again, or nothing."""
    by_chance: list[str] = []
    while failed := _first_failure(checkout, tests, by_chance):
        if "::" not in failed or _first_failure(checkout, [failed], []):
            return failed
        by_chance.append(failed)
    return ""


def _first_failure(checkout: Path, tests: list[str], without: list[str]) -> str:
    """A run without an end, or of memory, is a failure."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "no:randomly", *tests]
    command += [f"--deselect={each}" for each in without]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        ended = subprocess.run(
            command,
            cwd=checkout,
            env=environment,
            capture_output=True,
            preexec_fn=_bound_memory,
            timeout=STAGE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "a run without an end"
    if ended.returncode in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return ""
    found = re.search(rb"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", ended.stdout, re.MULTILINE)
    return found[1].decode() if found else "a run that does not begin, or breaks off"


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_MAX, ADDRESSES_MAX))


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=HOUSE, check=True)  # noqa: S607 - found on PATH


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
