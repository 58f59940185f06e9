"""Change single lines of the source at random, and see whether a test fails.

    python -m tools.mutations [--count 30] [--seed N] [--packages store,manager]
        [--tests unit,crash] [--workers 2] [--stages N] [--list]

Each change is made in a checkout of the last commit that is removed at the end; the work tree stays
as it is. First the tests run once with probes (`probes.py`), which name the tests that can tell a
change. These then run with the change in place, the likeliest and cheapest first, until the first
failure: the module's own tests, those of its folder, other unit tests, and the later stages.
Where there is no probe, all test files run in stages, each file once. `--stages` bounds these
stages, and leaves the probes out. A test counts if it fails twice, and not without the change.
A change that no test notices is printed with its line: write a test for it, or say why the line
means the same. The exit status is 1 if a change survived.
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
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import pytest

from tools import probe_notes, probes

HOUSE = Path(__file__).resolve().parent.parent
PACKAGES = ("delivery", "large", "transfer", "wire", "store", "manager")
LATER = ("simulation", "contract", "property", "crash", "unit", "integration", "docs")
"""Folders of tests behind those of the module's package, the likeliest and cheapest first."""
STAGE_S = 1800
PROBES_S = 7200
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
    tests: str = ""
    workers: int = 2
    stages: int | None = None
    list: bool


def main(arguments: list[str]) -> int:
    """Try as many changes as asked for; say for each what noticed it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--packages", default=",".join(PACKAGES))
    everything = ",".join(("unit", "formats", *(each for each in LATER if each != "unit")))
    parser.add_argument("--tests", default=everything, help="the folders of tests that are probed")
    parser.add_argument("--workers", type=int, default=2, help="processes of the run with probes")
    parser.add_argument("--stages", type=int, help="no probes: run only so many stages")
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
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="dray-mutations-") as folder:
        checkout = Path(folder) / "checkout"
        _git("worktree", "add", "--quiet", "--detach", str(checkout), "HEAD")
        try:
            probed = {} if asked.stages else probed_tests(checkout, chosen, asked)
            for number, each in enumerate(chosen, 1):
                began = time.monotonic()
                stage = noticed_by(checkout, each, probed.get(number), stages_max=asked.stages)
                verdicts[stage.partition(":")[0] or "SURVIVED"] += 1
                verdict = f"noticed by {stage}" if stage else "SURVIVED"
                if not stage and probe_notes.UNKNOWN in probed.get(number, ()):
                    verdict += ", but a process that no probe could name reached it"
                verdict = f"{verdict} ({time.monotonic() - began:.0f} s)"
                print(f"{number}. {verdict}: {told(each)}", flush=True)
        finally:
            _git("worktree", "remove", "--force", str(checkout))
    survived = verdicts["SURVIVED"]
    for stage, count in verdicts.most_common():
        print(f"{count:4} {stage}")
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


def probed_tests(checkout: Path, chosen: Sequence[Mutation], asked: Asked) -> dict[int, list[str]]:
    """Run the tests once with a probe for each change; the tests that can tell it, by number."""
    began = time.monotonic()
    notes = checkout / "src" / f"{probes.NOTES}.py"
    shutil.copy(HOUSE / "tools" / "probe_notes.py", notes)
    folder = checkout / probe_notes.FOLDER.name
    folder.mkdir()
    numbers: list[int] = []
    for path in sorted({each.path for each in chosen}):
        text = (checkout / path).read_text("utf-8")
        changes = [
            (number, changed_text(text, each))
            for number, each in enumerate(chosen, 1)
            if each.path == path
        ]
        probed, placed = probes.with_probes(text, changes)
        (checkout / path).write_text(probed, "utf-8")
        numbers += placed
    for number in numbers:
        (folder / str(number)).touch()
    tests = [f"tests/{each}" for each in asked.tests.split(",")]
    many = ["-n", str(asked.workers), "--dist", "loadfile"] if asked.workers > 1 else []
    ended = _run(checkout, ["-p", probes.NOTES, *many, *tests], PROBES_S)
    if ended.returncode not in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}:
        raise SystemExit(f"the tests do not run with probes: {ended.stdout.decode()[-2000:]}")
    found = {each: (folder / str(each)).read_text("utf-8").splitlines() for each in numbers}
    _git("-C", str(checkout), "checkout", "--quiet", ".")
    _git("-C", str(checkout), "clean", "-qfdx")
    took = time.monotonic() - began
    print(f"{len(numbers)} of {len(chosen)} changes were probed ({took:.0f} s)", flush=True)
    return found


def changed_text(text: str, mutation: Mutation) -> str:
    """The text of a module with one line changed."""
    lines = text.split("\n")
    lines[mutation.line - 1] = mutation.after
    return "\n".join(lines)


def noticed_by(
    checkout: Path,
    mutation: Mutation,
    probed: Sequence[str] | None = None,
    *,
    stages_max: int | None = None,
) -> str:
    """Make the change, run the stages, undo it; the stage and the test that failed, or nothing."""
    planned: Iterator[tuple[str, list[str]]]
    if probed is None:
        planned = islice(stages(checkout, mutation.path), stages_max)
    else:
        planned = by_place(mutation.path, probed)
    ran: set[str] = set()
    failing_anyway: list[str] = []
    for stage, tests in planned:
        new = [each for each in tests if each not in ran]
        ran.update(new)
        while new:
            with _changed(checkout / mutation.path, mutation):
                failed = failure(checkout, new, failing_anyway)
            if not failed:
                break
            if "::" not in failed or not _first_failure(checkout, [failed], []):
                return f"{stage}: {failed}"
            failing_anyway.append(failed)
    return ""


@contextmanager
def _changed(path: Path, mutation: Mutation) -> Iterator[None]:
    text = path.read_text("utf-8")
    path.write_text(changed_text(text, mutation), "utf-8")
    try:
        yield
    finally:
        path.write_text(text, "utf-8")
        # A process of a test may have compiled the change; one of the same length would stay.
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def by_place(path: str, probed: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The tests that probes name, all cases of each, in stages."""
    *folders, name = path.removeprefix("src/dray/").split("/")
    own = "/".join(["tests/unit", *folders])
    tests = dict.fromkeys(each.partition("[")[0] for each in probed if each != probe_notes.UNKNOWN)
    for stage, begins in (
        ("its own tests", f"{own}/test_{name}"),
        ("the tests of its folder", f"{own}/"),
        ("the unit tests of its package", f"tests/unit/{folders[0]}/"),
        *((f"tests/{each}", f"tests/{each}/") for each in ("unit", "formats", *LATER)),
    ):
        found = [each for each in tests if each.startswith(begins)]
        if found:
            yield stage, found


def stages(checkout: Path, path: str) -> Iterator[tuple[str, list[str]]]:
    """The test files for a changed module, by stages, the likeliest and cheapest first."""
    *folders, name = path.removeprefix("src/dray/").split("/")
    own = "/".join(["tests/unit", *folders])
    yield "its own tests", _test_files(checkout, f"{own}/test_{name}")
    yield "the tests of its folder", _test_files(checkout, own)
    module = ".".join(["dray", *folders, name.removesuffix(".py")])
    unit = _test_files(checkout, "tests/unit")
    importing = [each for each in unit if module in (checkout / each).read_text("utf-8")]
    yield "the unit tests that import it", importing
    package = _test_files(checkout, f"tests/unit/{folders[0]}", "tests/formats")
    yield "the unit tests of its package", package
    for folder in LATER:
        yield f"tests/{folder}", _test_files(checkout, f"tests/{folder}")


def _test_files(checkout: Path, *places: str) -> list[str]:
    found: list[str] = []
    for place in places:
        path = checkout / place
        files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
        found += [each.relative_to(checkout).as_posix() for each in files]
    return found


def failure(checkout: Path, tests: list[str], without: Sequence[str] = ()) -> str:
    """The first test that fails and fails again, or nothing."""
    by_chance = list(without)
    while failed := _first_failure(checkout, tests, by_chance):
        if "::" not in failed or _first_failure(checkout, [failed], []):
            return failed
        by_chance.append(failed)
    return ""


def _first_failure(checkout: Path, tests: list[str], without: list[str]) -> str:
    """A run without an end, or of memory, is a failure."""
    try:
        ended = _run(checkout, ["-x", *tests, *(f"--deselect={each}" for each in without)], STAGE_S)
    except subprocess.TimeoutExpired:
        return "a run without an end"
    if ended.returncode in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return ""
    found = re.search(rb"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", ended.stdout, re.MULTILINE)
    return found[1].decode() if found else "a run that does not begin, or breaks off"


def _run(
    checkout: Path, arguments: list[str], timeout: float
) -> subprocess.CompletedProcess[bytes]:
    """Run pytest in a checkout."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    environment = os.environ | {"PYTHONPATH": str(checkout / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [*command, *arguments],
        cwd=checkout,
        env=environment,
        capture_output=True,
        preexec_fn=_bound_memory,
        timeout=timeout,
        check=False,
    )


def _bound_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES_MAX, ADDRESSES_MAX))


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=HOUSE, check=True)  # noqa: S607 - found on PATH


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
