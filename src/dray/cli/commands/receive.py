"""`dray receive`: receive messages, each committed only after its content is safe.

Each message is received in a transaction of its own. The command commits after the file is
complete, synced and under its name (or after standard output took the body). If anything fails
before, the message stays in the queue. With `--no-sync` the commit does not wait for the disk, and
a power failure soon after may lose what was received.
"""

from __future__ import annotations

import base64
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from dray.cli.doubt import PATIENCE_S, RETRY_EVERY_S, nobody_said, was_committed
from dray.cli.output import print_json, standard_output_is_closed
from dray.cli.placing import Item, PlacedFile, TargetFolder, write_new
from dray.cli.progress import progress
from dray.cli.settings import Settings, takes_url_and_json
from dray.errors import (
    ConnectionLost,
    InDoubt,
    LargeMessageMixing,
    ReceiveTimeout,
    TargetUnwritable,
    TransactionAborted,
)
from dray.large.digests import DIGESTS
from dray.model.limits import MIB
from dray.model.message import Message
from dray.model.sizes import human_size

if TYPE_CHECKING:
    from dray.client.blocking.large_message import LargeMessage
    from dray.client.blocking.manager import Manager
    from dray.client.blocking.transaction import Transaction


Taken = dict[str, object]


@click.command()
@click.argument("queue")
@click.option(
    "--large", is_flag=True, help=("Receive large messages, reassembled and verified (with --to).")
)
@click.option("--to", "folder", metavar="DIR", help="Write each message to a file in DIR.")
@click.option(
    "--max",
    "most",
    type=click.IntRange(1),
    default=1,
    help=("Most messages to receive  [default: 1]."),
)
@click.option(
    "--timeout",
    type=click.FloatRange(0),
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
@takes_url_and_json
@click.pass_obj
def command(
    settings: Settings,
    queue: str,
    *,
    large: bool,
    folder: str | None,
    most: int,
    timeout: float | None,
    repair: bool,
    resume: bool,
    no_sync: bool,
) -> None:
    """Receive messages from QUEUE and print them, or write them to files.

    Each file is named after the label of its message, made safe; it never replaces another file.
    After a crash, run the same command again: it resumes, and each message ends up in exactly one
    file.
    """
    if large and folder is None:
        raise click.UsageError("--large needs --to DIR: a large message becomes a file.")
    if (repair or resume) and not large:
        raise click.UsageError("--repair and --resume are for --large.")
    if no_sync and folder is None:
        raise click.UsageError("--no-sync is for --to DIR: without it no file is written.")
    if folder is None and standard_output_is_closed():
        raise TargetUnwritable(
            "standard output is closed, so nobody would see the message; receive with --to DIR",
            path="-",
        )
    with ExitStack() as stack:
        target = None
        if folder is not None:
            target = stack.enter_context(TargetFolder(folder, sync=not no_sync))
        manager = stack.enter_context(settings.connect())
        how = How(target, large=large, repair=repair, resume=resume, sync=not no_sync)
        if target is not None:
            target.clear(manager.outcome)
        _take_all(settings, MessageTaker(settings, manager, queue, how), most, timeout)
        if target is not None:
            target.clear(manager.outcome)


def _take_all(settings: Settings, taker: MessageTaker, most: int, timeout: float | None) -> None:
    for count in range(most):
        wait = timeout if timeout is not None or count == 0 else 0
        try:
            taken = taker.take_one(wait)
        except ReceiveTimeout:
            if count == 0:
                raise
            return
        _tell(settings, taken)


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

    def __init__(self, settings: Settings, manager: Manager, queue: str, how: How) -> None:
        """Take nothing yet."""
        self._settings, self._how = settings, how
        self._manager, self._queue = manager, manager.queue(queue)
        self._transactional = self._queue.info().transactional
        self._placed: PlacedFile | None = None

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
            raise TransactionAborted(
                f"transaction {doubt.transaction_id} was aborted because the connection to the"
                " queue manager was lost; the message is still in its queue and will come again",
                transaction_id=doubt.transaction_id,
            ) from doubt

    def _receive(self, wait: float | None, transaction: Transaction | None) -> Message:
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

    def _take_plain(self, wait: float | None, transaction: Transaction | None) -> Taken:
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
                _name_from(message.id),
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

    def _take_large(self, wait: float | None, transaction: Transaction | None) -> Taken:
        import dray

        how = self._how
        assert how.target is not None
        large = dray.LargeMessageQueue(self._queue)
        with large.receive(wait, transaction, repair=how.repair) as message:
            name = _name_from(message.sequence_id)
            with progress(f"receiving {message.label or name}", message.size) as shown:
                item = Item(
                    message.sequence_id,
                    message.label,
                    name,
                    "" if transaction is None else transaction.id,
                    write=lambda at: message.save_to(
                        at, shown.update, resume=how.resume, sync=how.sync
                    ),
                    is_body=lambda at: _is_whole(at, message),
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


def _is_whole(path: Path, message: LargeMessage) -> bool:
    """Whether a file holds a large message's whole body."""
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != message.size:
            return False
        digest = DIGESTS[message.digest_kind]()
        while piece := file.read(MIB):
            digest.update(piece)
    return digest.digest() == message.digest


def _name_from(id: str | None) -> str:
    """A file's name for a message without a label."""
    return f"message-{(id or '').rpartition(chr(92))[2]}"


def _tell(settings: Settings, taken: Taken) -> None:
    if not taken:
        return
    if settings.as_json:
        print_json(taken)
    elif "path" in taken:
        size = taken["size"]
        assert isinstance(size, int)
        click.echo(f"received {taken['path']} ({human_size(size)})")
