"""Write the reference pages that the code itself can tell: commands, errors, modules.

    python tools/write_reference.py

A test fails while a page differs from what this would write.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from dray.cli.program import COMMANDS, program
from dray.errors import DrayError
from dray.metrics.collector import MANAGER_INFO, OF_A_QUEUE, OF_THE_MANAGER, QUEUE_STATE

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools import http_reference

HOUSE = Path(__file__).resolve().parent.parent
REFERENCE = HOUSE / "docs" / "reference"
SOURCE = HOUSE / "src" / "dray"

CLI_OPENING = """# Command line

Written by `tools/write_reference.py` from the program itself: do not edit.

Most commands speak to one queue manager: the one at `--url`, or else at the address in `DRAY_URL`,
or else the one that the same account runs [without an address](configuration.md). Most commands
with `--data` look into the data directory of a queue manager that is stopped. With `--json` a
command prints JSON for programs: each message as one object a line, anything else as one value.
Without `--json` it prints tables for people. Both `--url` and `--json` may stand before or after
the command's name. Progress goes to standard error: as a bar on a terminal, elsewhere as a plain
line now and then.

| exit status | meaning |
|---|---|
| 0 | done |
| 2 | the command line was misused |
| 130 | interrupted |
| other | an error: one line `dray: <code>: <sentence>` on standard error; see [Errors](errors.md) |
"""

ERRORS_OPENING = """# Errors

Written by `tools/write_reference.py` from `dray.errors`: do not edit.

Every error is a `DrayError`, importable from `dray`. Its text is one sentence: what happened, to
what, what to do. `code` is stable: the same on the wire, on the command line and here. `retryable`
says whether the very same call may be made again: it may succeed then, and it does nothing twice.
One error can say otherwise than its class, where a repeat could do something twice. The command
line prints `dray: <code>: <sentence>` and ends with the exit status below.

| error | is a | code | exit status | retryable | when | fields |
|---|---|---|---|---|---|---|
"""

MODULES_OPENING = """# Where is what

Written by `tools/write_reference.py` from the first sentence of each module: do not edit.

The packages stand in the order of the [layers](../../ARCHITECTURE.md), those that others rest on
last. How they work together is told in [Architecture](../../ARCHITECTURE.md) and on the pages of
[explanation](../explanation).
"""

METRICS_OPENING = """# Metrics

Written by `tools/write_reference.py` from `dray.metrics`: do not edit.

`dray serve --http HOST:PORT` (or the path of a Unix socket) answers `/metrics` in the text format
of Prometheus, `/healthz` and `/readyz`. It needs the extra `metrics` (`pip install
'dray[metrics]'`). With the extra `console` the same address serves [HTTP for programs](http.md).
Anybody who can connect to the address can read the names of queues and how full they are, and
nothing else; a Unix socket is for its owner only. A scrape asks the queue manager once for
everything, as any client does. For 1,000 queues that takes about 5 ms, for 100,000 some seconds,
in which health is answered all the same. `dray console` answers `/metrics` for a caller that shows
a token.

| path | status 200 | status 503 |
|---|---|---|
| `/healthz` | the queue manager answers | it is silent for 5 s, or a failed sync has stopped it |
| `/readyz` | the same, and the disk has more free room than `low_water` | else; the body says why |

With `/v1` on the same address it takes 10 s until a silent queue manager is told.

A name that ends in `_total` is a counter since the start of the queue manager, any other a gauge. A
metric without a value, such as a quota that is not set, is left out.

| metric | labels | value |
|---|---|---|
"""

CITED = re.compile(r" \((?:(?:,|to|and|semantics|[RS]?\d[\d.-]*) ?)+\)(?=[.,:;])")
"""Numbers of requirements, which the code cites and users do not read."""
PACKAGES = (
    ("", "The doors: what programs import, and what several layers share"),
    ("cli", "Command line"),
    ("cli/commands", "Command line: the commands"),
    ("cli/commands/demo", "`dray demo`"),
    ("folders", "Folders, sent through queues"),
    ("console", "The console"),
    ("console/sample", "The console: the application of the sample"),
    ("console/pages", "The console: its pages"),
    ("console/http", "The console: HTTP itself"),
    ("console/v1", "The console: HTTP for programs"),
    ("metrics", "Metrics for operators"),
    ("spark", "Spark"),
    ("spark/landing", "Spark: files, a table, and the settling of the queue"),
    ("spark/auditing", "Spark: what landed, proven and measured"),
    ("spark/source", "Spark: queues read by position"),
    ("spark/sink", "Spark: rows written to queues, batch by batch"),
    ("testing", "Simulated surroundings"),
    ("client", "Clients"),
    ("client/blocking", "Clients: the blocking face"),
    ("client/awaited", "Clients: every operation, written once"),
    ("client/transfer", "Clients: file transfers"),
    ("client/files", "Clients: payloads read and written"),
    ("client/connections", "Clients: connections to queue managers"),
    ("client/calls", "Clients: arguments and messages"),
    ("daemon", "The daemon: the only place that waits"),
    ("daemon/sockets", "The daemon: its sockets"),
    ("daemon/direct", "The daemon: callers in the same program"),
    ("daemon/files", "The daemon: files that clients lend"),
    ("daemon/pacing", "The daemon: when to sync, and what waits"),
    ("offline", "Work on the data directory of a stopped manager"),
    ("net", "Connections: TLS, tunnels, send buffers"),
    ("manager", "The queue manager"),
    ("manager/requests", "The queue manager: what a client may ask"),
    ("manager/incoming", "The queue manager: what comes by the streams of others"),
    ("manager/peers", "The queue manager: what managers say to each other"),
    ("manager/transactions", "The queue manager: transactions"),
    ("manager/rights", "The queue manager: rights of callers"),
    ("manager/change", "The queue manager: what a change brings with it"),
    ("manager/disk", "The queue manager: the disk beside the log"),
    ("manager/state", "The queue manager: the durable state"),
    ("manager/queue", "The queue manager: one queue"),
    ("manager/entries", "The queue manager: the entries of queues"),
    ("delivery", "Delivery between queue managers"),
    ("large", "Large messages"),
    ("transfer", "File transfer: the cores"),
    ("store", "The store"),
    ("store/recovery", "The store: recovery"),
    ("store/heap", "The store: payload in heap files"),
    ("store/log", "The store: log and checkpoints"),
    ("wire", "The wire"),
    ("model", "The nouns"),
    ("errors", "Errors"),
)
"""Each folder of the source with a heading."""


def main() -> None:
    """Write all pages."""
    REFERENCE.mkdir(parents=True, exist_ok=True)
    (REFERENCE / "cli.md").write_text(command_line_page(), encoding="utf-8")
    (REFERENCE / "errors.md").write_text(errors_page(), encoding="utf-8")
    (REFERENCE / "http.md").write_text(http_reference.page(), encoding="utf-8")
    (REFERENCE / "metrics.md").write_text(metrics_page(), encoding="utf-8")
    (REFERENCE / "modules.md").write_text(modules_page(), encoding="utf-8")


def command_line_page() -> str:
    """The page about all commands."""
    sections = [CLI_OPENING]
    context = click.Context(program, info_name="dray")
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        sections += _command(command, click.Context(command, info_name=name, parent=context))
    return "\n".join(sections)


def errors_page() -> str:
    """The page about all errors, in the order of the tree."""
    return ERRORS_OPENING + "".join(f"| {' | '.join(row)} |\n" for row in _errors(DrayError))


def metrics_page() -> str:
    """The page about all metrics."""
    rows = [
        (MANAGER_INFO, "`id`, `name`, `version`", "Always 1; the labels name the queue manager."),
        *((each.name, "", each.help) for each in OF_THE_MANAGER),
        (QUEUE_STATE, "`queue`, `kind`, `state`", "1 for the state of the queue."),
        *((each.name, "`queue`, `kind`", each.help) for each in OF_A_QUEUE),
    ]
    return METRICS_OPENING + "".join(f"| `{name}` | {of} | {text} |\n" for name, of, text in rows)


def modules_page() -> str:
    """The page about all modules, folder by folder."""
    sections = [MODULES_OPENING]
    for folder, title in PACKAGES:
        sections.append(f"## {title}\n\n| `dray/{folder}` | |\n|---|---|")
        modules = sorted((SOURCE / folder).glob("*.py"), key=lambda each: each.stem)
        sections.append("\n".join(_module(each) for each in modules) + "\n")
    return "\n".join(sections)


def _module(path: Path) -> str:
    """A row: the module's name and the first sentence of its docstring."""
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    words: list[str] = []
    for word in told.partition("\n\n")[0].split():
        words.append(word)
        if word.endswith("."):
            break
    sentence = CITED.sub("", " ".join(words)).replace("|", "\\|")
    return f"| `{path.name}` | {sentence} |"


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _command(inner, click.Context(inner, info_name=name, parent=context))
        return
    yield f"## {context.command_path}\n"
    usage = " ".join(command.collect_usage_pieces(context))
    yield f"```\n{context.command_path} {usage}\n```\n"
    yield f"{_sentences(command.help or '')}\n"
    rows = [row for row in (_option(parameter, context) for parameter in command.params) if row]
    if rows:
        yield "| option | |\n|---|---|"
        yield "\n".join(rows) + "\n"


def _option(parameter: click.Parameter, context: click.Context) -> str | None:
    record = parameter.get_help_record(context)
    if not isinstance(parameter, click.Option) or record is None:
        return None
    if parameter.name in {"url", "json"}:
        return None
    names, text = record
    return f"| `{names}` | {' '.join(text.split())} |"


def _sentences(text: str) -> str:
    return "\n\n".join(map(_paragraph, inspect.cleandoc(text).split("\n\n")))


def _paragraph(text: str) -> str:
    """A paragraph in one line; click keeps the lines of one that begins with a backspace."""
    if text.startswith("\b\n"):
        return f"```\n{text.removeprefix(chr(8)).strip()}\n```"
    return " ".join(text.split())


def _errors(error: type[DrayError]) -> Iterator[tuple[str, ...]]:
    parent = error.__bases__[0].__name__ if error is not DrayError else ""
    yield (
        f"`{error.__name__}`",
        f"`{parent}`" if parent else "",
        f"`{error.code}`",
        str(error.exit_status),
        "yes" if error.retryable else "no",
        " ".join((error.__doc__ or "").split()),
        ", ".join(f"`{name}`" for name in _fields(error)),
    )
    for inner in sorted(error.__subclasses__(), key=lambda cls: cls.exit_status):
        yield from _errors(inner)


def _fields(error: type[DrayError]) -> list[str]:
    return [
        name
        for cls in reversed(error.__mro__)
        for name in vars(cls).get("__annotations__", {})
        if issubclass(cls, DrayError) and name not in {"code", "exit_status", "retryable"}
    ]


if __name__ == "__main__":
    main()
