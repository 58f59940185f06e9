"""`dray receive`: receive messages, each committed only after its content is safe.

Each message is received in a transaction of its own. The command commits after the file is
complete, synced and under its name (or after standard output took the body). If anything fails
before, the message stays in the queue. With `--no-sync` the commit does not wait for the disk, and
a power failure soon after may lose what was received.
"""

from __future__ import annotations

import base64
import sys
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

import dray
from dray.cli.doubt import (
    PATIENCE_S,
    RETRY_EVERY_S,
    aborted,
    nobody_said,
    on_interrupt,
    was_committed,
)
from dray.cli.incoming_files import ShownFiles, patiently, say_that_it_waits, waits_for
from dray.cli.option_types import Seconds
from dray.cli.output import print_json, standard_output_is_closed
from dray.cli.progress import progress
from dray.cli.settings import Settings, takes_url_and_json
from dray.cli.until_stopped import connected, stopped_by_sigterm
from dray.errors import (
    ConnectionLost,
    InDoubt,
    LargeMessageMixing,
    ReceiveTimeout,
    TargetUnwritable,
)
from dray.folders.flat_target import is_whole
from dray.folders.labels import otherwise_named
from dray.folders.placing import Item, PlacedFile, TargetFolder, write_new
from dray.model.limits import WORKERS_MAX
from dray.model.message import Message
from dray.model.words import counted, human_size

Taken = dict[str, object]
_FOLDER_OPTIONS = (
    "--follow", "--tree", "--preserve", "--on-conflict", "--exec", "--retries", "--retry-delay",
    "--then", "--workers",
)  # fmt: skip
"""Options of `dray.folders.receive`; the others receive message by message."""


@click.command()
@click.argument("queue")
@click.option(
    "--large", is_flag=True, help=("Receive large messages, reassembled and verified (with --to).")
)
@click.option(
    "--to",
    "folder",
    metavar="DIR",
    help="Write each message to a file in DIR (--large: or in the store of a URL such as"
    " s3://bucket/prefix); - for the body of one on standard output (--large).",
)
@click.option(
    "--max",
    "most",
    type=click.IntRange(1),
    help=("Most messages to receive  [default: 1, with --follow no limit]."),
)
@click.option(
    "--timeout",
    type=Seconds(0),
    help="Seconds to wait for each message  [default: no limit for the first, 0 for the rest].",
)
@click.option("--resume", is_flag=True, help="Keep a partly received file and resume it (--large).")
@click.option(
    "--repair", is_flag=True, help=("Ask the source to send missing parts again (--large).")
)
@click.option(
    "--no-sync",
    is_flag=True,
    help="Do not sync files to disk: a power failure soon after may lose them (with --to).",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Go on until SIGTERM, through restarts of the queue manager (--large).",
)
@click.option(
    "--tree", is_flag=True, help="Restore each file under its relative path below DIR (--large)."
)
@click.option("--preserve", is_flag=True, help="Keep time and mode of each file (--large).")
@click.option(
    "--on-conflict",
    type=click.Choice(["number", "replace", "skip", "fail"]),
    default="number",
    show_default=True,
    help="If another file has the path: number the new one, replace the old one, skip or fail"
    " (--tree).",
)
@click.option(
    "--exec",
    "command",
    metavar="CMD",
    help="Run CMD for each file, with {path} for its path; receive the message if it exits with 0"
    " (--large).",
)
@click.option(
    "--retries",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Tries after the first one, if a file or its command fails.",
)
@click.option(
    "--retry-delay",
    type=Seconds(0),
    default=0.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between tries; other messages pass.",
)
@click.option(
    "--then",
    type=click.Choice(["move", "reject", "drop"]),
    default="move",
    show_default=True,
    help="After the last try: move the message to QUEUE;poison, reject it or drop it.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, WORKERS_MAX),
    default=1,
    show_default=True,
    help="Messages to receive side by side (--follow).",
)
@takes_url_and_json
@click.pass_context
def command(
    context: click.Context,
    settings: Settings,
    /,
    queue: str,
    *,
    large: bool,
    folder: str | None,
    most: int | None,
    timeout: float | None,
    repair: bool,
    resume: bool,
    no_sync: bool,
    follow: bool,
    **options: Any,  # noqa: ANN401 - the options of `dray.folders.receive`
) -> None:
    """Receive messages from QUEUE and print them, or write them to files.

    Each file is named after the label of its message, made safe; it never replaces another file.
    After a crash, run the same command again: it resumes, and each message ends up in exactly one
    file.
    """
    given = check_usage(context)
    if folder in {None, "-"} and standard_output_is_closed():
        raise TargetUnwritable(
            "standard output is closed, so nobody would see the message; receive with --to DIR",
            path="-",
        )
    if given:
        assert folder is not None
        options |= {"sync": not no_sync}
        if follow:
            _follow(settings, queue, folder, options)
        else:
            limits = {"count": most or 1, "timeout": timeout}
            _receive_files(settings, queue, folder, options | limits)
        return
    with ExitStack() as stack:
        target = None
        if folder not in {None, "-"}:
            assert folder is not None
            target = stack.enter_context(TargetFolder(folder, sync=not no_sync))
        manager = stack.enter_context(settings.connect())
        how = How(target, large=large, repair=repair, resume=resume, sync=not no_sync)
        if target is not None:
            target.clear(manager.outcome)
        _take_all(settings, MessageTaker(settings, manager, queue, how), most or 1, timeout)
        if target is not None:
            target.clear(manager.outcome)


def _take_all(settings: Settings, taker: MessageTaker, most: int, timeout: float | None) -> None:
    done = 0

    def note() -> str:
        return f"{counted(done)} received; every other message is still in {taker.queue_name}"

    with on_interrupt(note):
        for count in range(most):
            wait = timeout if timeout is not None or count == 0 else 0
            try:
                taken = patiently(taker.take_one, wait, taker.waits_for, taker.nothing)
            except ReceiveTimeout:
                if count == 0:
                    raise
                return
            done += 1
            _tell(settings, taken)


def check_usage(context: click.Context) -> list[str]:
    """Raise a usage error for options that do not go together.

    Gives those that only `dray.folders.receive` takes.
    """
    params = context.params
    given = [name for name in _FOLDER_OPTIONS if _is_given(context, name)]
    folder, large, most = params["folder"], params["large"], params["most"]
    if "://" in (folder or ""):
        given.append("A URL")
    alone = params["repair"] or params["resume"]
    if large and folder is None:
        raise click.UsageError("--large needs --to DIR: a large message becomes a file.")
    if alone and not large:
        raise click.UsageError("--repair and --resume are for --large.")
    if params["no_sync"] and folder is None:
        raise click.UsageError("--no-sync is for --to DIR: without it no file is written.")
    if given and (not large or folder == "-" or alone):
        raise click.UsageError(
            f"{given[0]} is for --large --to DIR, without --repair and --resume."
        )
    if "--preserve" in given and "A URL" in given:
        raise click.UsageError("--preserve is for a directory: a store keeps no time and no mode.")
    if "--workers" in given and not params["follow"]:
        raise click.UsageError("--workers is for --follow.")
    if "--on-conflict" in given and not params["tree"]:
        raise click.UsageError("--on-conflict is for --tree.")
    if folder == "-" and (not large or params["resume"] or params["no_sync"] or (most or 1) > 1):
        raise click.UsageError("--to - is for the body of one message, with --large.")
    if params["follow"] and (most is not None or params["timeout"] is not None):
        raise click.UsageError("--follow has no end: leave --max and --timeout out.")
    return given


def _is_given(context: click.Context, option: str) -> bool:
    name = {"--exec": "command"}.get(option, option[2:].replace("-", "_"))
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def _follow(settings: Settings, queue: str, folder: str, options: dict[str, Any]) -> None:
    """Receive until SIGTERM; the file under way is finished."""
    import dray.folders

    shown = ShownFiles(as_json=settings.as_json)
    if sys.stderr.isatty():
        click.echo(f"dray: receiving what comes to {queue!r} (Ctrl-C ends it)", err=True)
    with on_interrupt(lambda: shown.note_of(queue)), stopped_by_sigterm() as stop:
        manager = connected(settings, stop)
        if manager is None:
            return
        with manager:
            dray.folders.receive(manager.queue(queue), folder, stop=stop, tell=shown, **options)


def _receive_files(settings: Settings, queue: str, folder: str, options: dict[str, Any]) -> None:
    """Receive some messages; raises the error of one that was given up."""
    import dray.folders

    shown = ShownFiles(as_json=settings.as_json)
    with settings.connect() as manager, on_interrupt(lambda: shown.note_of(queue)):
        source = manager.queue(queue)
        options["timeout"] = say_that_it_waits(source, options["timeout"])
        received = dray.folders.receive(source, folder, follow=False, tell=shown, **options)
    if not received.files and not received.failed:
        raise ReceiveTimeout(
            f"no large message came to {queue!r} in time; wait longer, or send one"
        )
    if shown.error is not None:
        raise shown.error


class How(NamedTuple):
    """Options that apply to every received message."""

    target: TargetFolder | None
    """A directory, or None for standard output."""
    large: bool
    repair: bool
    resume: bool
    sync: bool


class MessageTaker:
    """Takes messages from one queue, one transaction each."""

    def __init__(self, settings: Settings, manager: dray.Manager, queue: str, how: How) -> None:
        self._settings, self._how = settings, how
        self._manager, self._queue = manager, manager.queue(queue)
        self._transactional = self._queue.info().transactional
        self._placed: PlacedFile | None = None

    @property
    def queue_name(self) -> str:
        """The queue from which it takes."""
        return self._queue.name

    @property
    def nothing(self) -> str:
        """A sentence without its end: no message has come."""
        return f"no message became available in {self.queue_name!r}"

    def waits_for(self) -> str:
        """The kind of message that it waits for, and why none of those there will do."""
        return waits_for(self._queue, large=self._how.large)

    def take_one(self, wait: float | None) -> Taken:
        """Receive one message and put its content in a safe place; raises `ReceiveTimeout`."""
        committed = False
        try:
            taken = self._take_one(wait)
            committed = True
            return taken
        finally:
            placed, self._placed = self._placed, None
            if placed is not None:
                placed.close(committed=committed)

    def _take_one(self, wait: float | None) -> Taken:
        take = self._take_large if self._how.large else self._take_plain
        if not self._transactional:
            return take(wait, None)
        try:
            with self._manager.transaction() as transaction:
                return take(wait, transaction)
        except InDoubt as doubt:
            if was_committed(self._settings.connect, doubt, PATIENCE_S):
                return {"in_doubt": doubt.transaction_id, "outcome": "committed"}
            rest = "the message is still in its queue and will come again"
            raise aborted("transaction", doubt, rest) from doubt

    def _receive(self, wait: float | None, transaction: dray.Transaction | None) -> Message:
        """Receive; keep asking for a message that was taken and is held in this process."""
        undecided, deadline = "", 0.0
        while True:
            try:
                return self._queue.receive(timeout=wait, transaction=transaction)
            except ConnectionLost as lost:
                if not undecided:
                    undecided = str(lost.fields.get("transaction_id", ""))
                    deadline = time.monotonic() + PATIENCE_S
                if not undecided:
                    raise
                if time.monotonic() >= deadline:
                    raise nobody_said(undecided, {}) from lost
                time.sleep(RETRY_EVERY_S)

    def _take_plain(self, wait: float | None, transaction: dray.Transaction | None) -> Taken:
        try:
            message = self._receive(wait, transaction)
        except LargeMessageMixing as error:
            raise LargeMessageMixing(
                f"queue {error.queue!r} is used for large messages; receive with --large --to DIR",
                queue=error.queue,
            ) from error
        taken: Taken = {"id": message.id, "label": message.label, "size": message.body_size}
        target = self._how.target
        if target is not None:
            assert message.id is not None
            body = message.body
            item = Item(
                message.id,
                message.label,
                otherwise_named(message.id),
                "" if transaction is None else transaction.id,
                write=lambda at: write_new(at, body, sync=self._how.sync),
                is_body=lambda at: at.stat().st_size == len(body) and at.read_bytes() == body,
            )
            self._placed = target.place(item)
            return taken | {"path": str(self._placed.path)}
        # Printed before the commit: what nobody can read stays in the queue.
        if self._settings.as_json:
            print_json(taken | {"body": base64.b64encode(message.body).decode()})
        else:
            _print_body(message)
        return {}

    def _take_large(self, wait: float | None, transaction: dray.Transaction | None) -> Taken:
        how = self._how
        large = dray.LargeMessageQueue(self._queue)
        with large.receive(wait, transaction, repair=how.repair) as message:
            if how.target is None:
                # Written before the commit: what nobody can read stays in the queue.
                for piece in message:
                    sys.stdout.buffer.write(piece)
                sys.stdout.buffer.flush()
                return {}
            name = otherwise_named(message.sequence_id)
            with progress(f"receiving {message.label or name}", message.size) as shown:
                item = Item(
                    message.sequence_id,
                    message.label,
                    name,
                    "" if transaction is None else transaction.id,
                    write=lambda at: message.save_to(
                        at, shown.update, resume=how.resume, sync=how.sync
                    ),
                    is_body=lambda at: is_whole(at, message),
                    resumed=how.resume,
                )
                self._placed = how.target.place(item)
            return {
                "id": message.sequence_id,
                "label": message.label,
                "size": message.size,
                "digest": message.digest.hex(),
                "digest_kind": message.digest_kind,
                "path": str(self._placed.path),
            }


def _print_body(message: Message) -> None:
    stdout = sys.stdout.buffer
    stdout.write(message.body)
    if sys.stdout.isatty() and bytes(message.body[-1:]) != b"\n":
        stdout.write(b"\n")
    stdout.flush()


def _tell(settings: Settings, taken: Taken) -> None:
    if not taken:
        return
    if settings.as_json:
        print_json(taken)
    elif "path" in taken:
        size = taken["size"]
        assert isinstance(size, int)
        click.echo(f"received {taken['path']} ({human_size(size)})")
