"""The house rules that no linter knows, each a function from source text to complaints.

A ratchet only reads text, so that test_ratchets_can_fail.py can show each one a bad sample, and
test_source.py can show each one the whole of src.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from dray.errors import every_error
from tests.house.parsed import module, nodes

MODULE_LINES_MAX = 450
FUNCTION_LINES_MAX = 70
ROOM_MODULES_MAX = 12
FORBIDDEN_NAMES = frozenset({"utils", "util", "helpers", "helper", "common", "misc", "base"})
CLOCK_AND_CHANCE = frozenset({"time", "random", "secrets"})
# Calls that read the clock or draw chance without one of the modules above.
CLOCK_AND_CHANCE_CALLS = frozenset(
    {
        "date.today",
        "datetime.now",
        "datetime.today",
        "datetime.utcnow",
        "os.urandom",
        "uuid.uuid1",
        "uuid.uuid4",
    }
)
# Below src/dray. One module gives the cores their time; the others only wait for people or peers.
CLOCK_AND_CHANCE_ALLOWED = (
    "daemon/timekeeper.py", "cli/", "client/", "console/", "folders/", "spark/", "testing/",
)  # fmt: skip
PRINT_ALLOWED = ("cli/",)
UNITS = frozenset({"KIB", "MIB", "GIB"})

# A path that only exists on the machine where it was written.
MACHINE_PATH = re.compile(r"(?<![\w.}:/-])/(?:home|root|work|Users|mnt|data\d*)/\w")
# A sentence whose subject is a clause: "What a queue holds", "Of a small log no less than a block".
TURNED = re.compile(r"(?:^|(?<=[.!?:;]\s))(?:What|Who|Whose|Whom|Whoever|Whatever|Of)\s")
# A docstring that is a question: "How many wait", "Where the log ends". A module says how it works.
QUESTION = re.compile(r"Those\s|(?:How|Where|Which)\s")
UNFINISHED = re.compile(r"\b(?:" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")

# A first word that is written like one of a sentence, and the names that are.
CAPITAL = re.compile(r"([A-Z][a-z]*)(?![\w.-])")
NAMES = frozenset({"Java", "Spark"})

ERRORS = frozenset(each.__name__ for each in every_error().values())

Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_allowed(path: str, allowed: tuple[str, ...]) -> bool:
    """Whether a path below src/dray is one of the files, or in one of the directories, named."""
    return any(path == name or (name.endswith("/") and path.startswith(name)) for name in allowed)


def long_module(path: str, source: str) -> Iterator[str]:
    """A module longer than the wall is two modules."""
    if (lines := len(source.splitlines())) > MODULE_LINES_MAX:
        yield f"{path}: {lines} lines, the wall is {MODULE_LINES_MAX}"


def crowded_rooms(paths: list[str]) -> Iterator[str]:
    """Who opens a folder of the manager sees at a glance what is in it."""
    rooms = Counter(
        str(PurePosixPath(path).parent)
        for path in paths
        if path.startswith("manager/") and not path.endswith("__init__.py")
    )
    for room, count in sorted(rooms.items()):
        if count > ROOM_MODULES_MAX:
            yield f"{room}: {count} modules, the wall is {ROOM_MODULES_MAX}"


def long_functions(path: str, source: str) -> Iterator[str]:
    """A function longer than the wall tells more than one story."""
    for node in nodes(source):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, the wall is 70"


def missing_docstring(path: str, source: str) -> Iterator[str]:
    """A module opens with what it is for."""
    if not ast.get_docstring(module(source)):
        yield f"{path}: does not say what it is for"


def forbidden_name(path: str, source: str) -> Iterator[str]:
    """A module is named after what it knows, and these names know nothing."""
    for part in PurePosixPath(path).with_suffix("").parts:
        if FORBIDDEN_NAMES & set(part.strip("_").split("_")):
            yield f"{path}: {part} is no name for a module"


def prints(path: str, source: str) -> Iterator[str]:
    """A library does not talk to the terminal of the program it is in."""
    if is_allowed(path, PRINT_ALLOWED):
        return
    for node in nodes(source):
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print":
            yield f"{path}:{node.lineno}: prints"


def clock_and_chance(path: str, source: str) -> Iterator[str]:
    """Only the timekeeper reads the clock or draws randomness."""
    if is_allowed(path, CLOCK_AND_CHANCE_ALLOWED):
        return
    for node in nodes(source):
        match node:
            case ast.Import(names=names):
                used = {alias.name for alias in names} & CLOCK_AND_CHANCE
            case ast.ImportFrom(module=str(module), level=0):
                used = {module} & CLOCK_AND_CHANCE
            case ast.Call(func=ast.Attribute() as called):
                used = {".".join(ast.unparse(called).split(".")[-2:])} & CLOCK_AND_CHANCE_CALLS
            case _:
                continue
        for name in used:
            yield f"{path}:{node.lineno}: {name} belongs to daemon/timekeeper.py"


def bounds_without_reason(path: str, source: str) -> Iterator[str]:
    """A bound says beside it where it comes from; units may stand together."""
    if PurePosixPath(path).name != "limits.py":
        return
    body = module(source).body
    for node, follower in zip(body, [*body[1:], None], strict=True):
        told = isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant)
        if isinstance(node, ast.AnnAssign) and not told:
            name = ast.unparse(node.target)
            if name not in UNITS:
                yield f"{path}:{node.lineno}: {name} has no reason"


def full_stops(path: str, source: str) -> Iterator[str]:
    """The sentence of an error is put into others, so it ends without a full stop."""
    for line, text in _sentences_of_errors(source):
        if _last_words(text).endswith("."):
            yield f"{path}:{line}: the sentence of an error ends with a full stop"


def capitals(path: str, source: str) -> Iterator[str]:
    """The sentence of an error stands behind its code, so it begins small, unless with a name."""
    for line, text in _sentences_of_errors(source):
        first = CAPITAL.match(_first_words(text))
        if first and first[1] not in NAMES:
            yield f"{path}:{line}: the sentence of an error begins with a capital: {first[1]}"


def _sentences_of_errors(source: str) -> Iterator[tuple[int, ast.expr]]:
    """Each call of an error: its line, and the text that it is given, also by a variable."""
    for function in nodes(source):
        if not isinstance(function, Function):
            continue
        texts = {
            node.targets[0].id: node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for call in ast.walk(function):
            if isinstance(call, ast.Call) and call.args and _is_error(call.func):
                text = call.args[0]
                yield call.lineno, texts.get(text.id, text) if isinstance(text, ast.Name) else text


def turned_sentences(path: str, source: str) -> Iterator[str]:
    """A docstring or comment says who does what: subject, verb, object, with a noun for each."""
    texts = [
        (node.lineno, str(node.value.value))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    comments = re.finditer(r"^ *((?:# [^\n]*\n *)+)", source, re.MULTILINE)
    texts += [
        (source.count("\n", 0, each.start()) + 1, re.sub(r"^ *# ", "", each[1], flags=re.MULTILINE))
        for each in comments
    ]
    for line, text in sorted(texts):
        for paragraph in re.split(r"\n\s*\n", text):
            plain = " ".join(paragraph.split())
            for found in TURNED.finditer(plain):
                sentence = plain[found.start() :].partition(". ")[0]
                yield f"{path}:{line}: {sentence}"
        if QUESTION.match(text) and not (line == 1 and text.startswith("How ")):
            yield f"{path}:{line}: {text.partition('.')[0]}"


def _is_error(called: ast.expr) -> bool:
    return ast.unparse(called).rpartition(".")[2] in ERRORS


def _last_words(text: ast.expr) -> str:
    if isinstance(text, ast.JoinedStr):
        return _last_words(text.values[-1])
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def _first_words(text: ast.expr) -> str:
    if isinstance(text, ast.JoinedStr):
        return _first_words(text.values[0])
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def machine_paths(path: str, text: str) -> Iterator[str]:
    """Nothing in the repository knows the machine it was written on."""
    for number, line in enumerate(text.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield f"{path}:{number}: names a path of one machine: {line.strip()}"


def unfinished(path: str, text: str) -> Iterator[str]:
    """What is not done is an issue, not a remark."""
    for number, line in enumerate(text.splitlines(), 1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: leaves a reminder behind: {line.strip()}"


def ignores_without_reason(path: str, pyproject: str) -> Iterator[str]:
    """Each lint rule that is left out has its reason beside it."""
    inside = False
    for number, line in enumerate(pyproject.splitlines(), 1):
        if line.startswith("["):
            inside = line.startswith("[tool.ruff")
        rule = re.match(r'\s*"([A-Z]+\d*)"\s*,?\s*(#\s*(?P<reason>\S.*))?$', line)
        if inside and rule and not rule["reason"]:
            yield f"{path}:{number}: {rule[1]} is left out without a reason"
        if inside and re.search(r'=\s*\[\s*"[A-Z]+\d+"', line):
            yield f"{path}:{number}: one rule a line, each with its reason"


def reaches_into_a_manager(path: str, source: str) -> Iterator[str]:
    """Tests see a manager from inside by `tests/inspection.py`, and in no other way."""
    for number, line in enumerate(source.splitlines(), 1):
        if re.search(r"\bmanager\._(?:context|subjects|links|tidier|waiters)\b", line):
            yield f"{path}:{number}: use look_into(manager)"


def foreign_hosts(path: str, lock: str) -> Iterator[str]:
    """The lock can be installed by anyone: it names the public index only."""
    public = {"pypi.org", "files.pythonhosted.org"}
    for host in sorted(set(re.findall(r"https?://([^/\"]+)", lock)) - public):
        yield f"{path}: names the host {host}"


def weak_errors(classes: list[type], exported: set[str]) -> Iterator[str]:
    """Every error has a code of its own, for ever, and can be imported from the front door."""
    owner: dict[str, str] = {}
    for error in classes:
        code = vars(error).get("code")
        if not isinstance(code, str) or not re.fullmatch(r"[a-z]+(-[a-z]+)*", code):
            yield f"{error.__name__}: no stable code of its own"
        elif owner.setdefault(code, error.__name__) != error.__name__:
            yield f"{error.__name__}: the code {code} belongs to {owner[code]}"
        if error.__name__ not in exported:
            yield f"{error.__name__}: not importable from dray"


def unfenced(present: set[str], wanted: set[str], fenced: set[str]) -> Iterator[str]:
    """A package that the architecture fences is inside the fence from the day it exists."""
    for name in sorted(present & wanted - fenced):
        yield f"dray.{name} stands outside its import contract in pyproject.toml"
