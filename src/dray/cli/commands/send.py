"""`dray send`: send files or standard input to a queue, in one transaction."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

import dray
from dray.cli.arrivals import Wait, WaitingCommand, arrivals_at, wait_option
from dray.cli.doubt import PATIENCE_S, aborted, on_interrupt, outcome_of_send, was_committed
from dray.cli.folders import folder_options, refuse_folder_options, send_folder
from dray.cli.option_types import Size
from dray.cli.output import print_json
from dray.cli.progress import ProgressDisplay, progress
from dray.cli.settings import Settings, takes_url_and_json
from dray.errors import (
    InDoubt,
    LargeMessageMixing,
    MessageTooLarge,
    SourceChanged,
    SourceUnreadable,
)
from dray.model.files import name_as_text
from dray.model.ids import join_id, split_id
from dray.model.limits import FRAGMENT_BYTES_MAX, MESSAGE_BYTES_MAX, PRIORITY_DEFAULT, PRIORITY_MAX
from dray.model.message import Message
from dray.model.names import parse_queue_address
from dray.model.words import human_size

STANDARD_INPUT = "-"
_NOTHING_SENT = "nothing was sent, so send again"


@dataclass(frozen=True)
class SentMessage:
    """One message that was sent."""

    id: str
    label: str
    size: int


@dataclass(frozen=True)
class Batch:
    """The messages to send, their target and the progress display."""

    manager: dray.Manager
    queue: str
    sources: list[str]
    label: str | None
    properties: dict[str, Any]
    """The other properties, the same for every message."""
    shown: ProgressDisplay
    connect: Callable[[], dray.Manager]
    """Another connection, to ask what became of a send whose answer was lost."""

    def label_of(self, path: str) -> str:
        """The label asked for, else the file's name."""
        if self.label is not None:
            return self.label
        return "" if path == STANDARD_INPUT else name_as_text(Path(path).name)


Send = Callable[[Batch, "dray.Transaction | None"], list[SentMessage]]


@click.command(cls=WaitingCommand)
@click.argument("queue")
@click.argument("files", nargs=-1, metavar="[FILES]...")
@click.option("--large", is_flag=True, help="Send each file as a large message, of any size.")
@click.option(
    "--stdin", "from_stdin", is_flag=True, help=("Send standard input; FILES = - does the same.")
)
@click.option("--label", help="Label of the messages  [default: the file's name].")
@click.option("--correlation-id", help="Correlation id of the messages.")
@click.option("--app-specific", type=int, default=0, help="Number for the receiving application.")
@click.option(
    "--priority",
    type=click.IntRange(0, PRIORITY_MAX),
    default=PRIORITY_DEFAULT,
    show_default=True,
    help="Messages of higher priority come first; in a transactional queue all messages have 0.",
)
@click.option(
    "--dead-letter/--no-dead-letter",
    default=None,
    help=(
        "Keep undeliverable and expired messages as dead letters, or keep none. The default keeps"
        " messages that another queue manager refuses."
    ),
)
@click.option(
    "--fragment-size",
    type=Size(FRAGMENT_BYTES_MAX),
    help="Most bytes of one fragment (--large); 0 uses the maximum.",
)
@click.option(
    "--digest",
    type=click.Choice(["blake3", "sha256"]),
    help="Digest of the large message (--large)  [default: the queue's, else blake3].",
)
@click.option(
    "--compression",
    type=click.Choice(["zstd"]),
    help=("Compress fragments if that makes them smaller (--large)."),
)
@click.option(
    "--resume",
    type=click.Path(dir_okay=False),
    metavar="STATE",
    help=(
        "Record progress in the file STATE; run the same command again to resume (--large, one"
        " FILE)."
    ),
)
@wait_option
@folder_options(one_transaction=True)
@takes_url_and_json
def command(
    settings: Settings,
    /,
    queue: str,
    files: tuple[str, ...],
    *,
    large: bool,
    from_stdin: bool,
    label: str | None,
    correlation_id: str | None,
    app_specific: int,
    priority: int,
    dead_letter: bool | None,
    fragment_size: int | None,
    digest: str | None,
    compression: str | None,
    resume: str | None,
    wait: Wait | None,
    **folder: Any,  # noqa: ANN401 - the options of `folder_options`
) -> None:
    """Send FILES to QUEUE, each as one message, all in one transaction.

    QUEUE is a queue of this queue manager, or dray://HOST:PORT/NAME for one elsewhere. If the only
    FILE is a directory, the command sends all files below it (--large), each in a transaction of
    its own. It does the same with objects below a URL that fsspec knows, such as s3://bucket/prefix.
    """
    # A path that cannot be looked at is told of where it is opened.
    alone = files[0] if len(files) == 1 and not from_stdin else ""
    if "://" in alone or os.path.isdir(alone):  # noqa: PTH112
        if not large:
            raise click.UsageError("The files of a directory are sent as large messages: --large.")
        send_folder(settings, queue, alone, folder, wait=wait)
        return
    refuse_folder_options(click.get_current_context())
    sources = [*files, *([STANDARD_INPUT] if from_stdin else [])]
    if not sources:
        raise click.UsageError("Nothing to send: name files, or give --stdin.")
    if (fragment_size or digest or compression) and not large:
        raise click.UsageError("--fragment-size, --digest and --compression are for --large.")
    if resume is not None and not (large and len(sources) == 1):
        raise click.UsageError("--resume is for --large and one FILE.")
    total = _check_sources(sources)
    properties = {
        "correlation_id": correlation_id,
        "app_specific": app_specific,
        "use_dead_letter_queue": dead_letter,
    }
    send: Send = partial(_send_plain, priority=priority)
    if large:
        how = {"fragment_size": fragment_size or 0, "digest": digest, "compression": compression}
        send = partial(_send_large, how=how, resume=resume)
    with settings.connect() as manager, arrivals_at(manager, wait) as arrivals:
        if arrivals is not None:
            properties |= arrivals.properties
        with progress(f"sending to {queue}", total) as shown, _naming_the_option():
            batch = Batch(manager, queue, sources, label, properties, shown, settings.connect)
            if resume is not None or not (large or _is_transactional(manager, queue)):
                sent, transaction_id = send(batch, None), None
            else:
                sent, transaction_id = _in_one_transaction(settings, batch, send)
        if arrivals is not None:
            names = zip(sources, sent, strict=True)
            arrivals.wait_for({message.id: path for path, message in names})
    _tell(settings, queue, sent, transaction_id)


@contextmanager
def _naming_the_option() -> Iterator[None]:
    """Translate the error about large messages into the words of this command."""
    try:
        yield
    except LargeMessageMixing as error:
        raise LargeMessageMixing(
            f"queue {error.queue!r} is used for large messages; send with --large",
            queue=error.queue,
        ) from error


def _is_transactional(manager: dray.Manager, queue: str) -> bool:
    """Whether sends to the queue use transactions; sends to another manager always do."""
    return parse_queue_address(queue).remote or manager.queue(queue).info().transactional


def _in_one_transaction(
    settings: Settings, batch: Batch, send: Send
) -> tuple[list[SentMessage], str]:
    """Send and commit; if the answer to the commit is lost, find out its outcome."""
    sent: list[SentMessage] = []
    transaction = batch.manager.transaction()
    try:
        with on_interrupt(lambda: outcome_of_send(transaction, batch.queue)), transaction:
            sent = send(batch, transaction)
    except InDoubt as doubt:
        if not was_committed(settings.connect, doubt, PATIENCE_S):
            raise aborted("transaction", doubt, _NOTHING_SENT) from doubt
    return sent, transaction.id


def _check_sources(sources: list[str]) -> int | None:
    """Raise for missing and unreadable files before anything is sent; the total size."""
    total: int | None = 0
    for path in sources:
        if path == STANDARD_INPUT:
            total = None
            continue
        size = _size_of(path)
        total = None if total is None or size is None else total + size
    return total


def _size_of(path: str) -> int | None:
    """The size of a readable file; None for a source without a known size."""
    try:
        found = Path(path).stat()
    except OSError as error:
        raise _not_read(path, error) from error
    if stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode):
        # To open one and close it again would hang up on whoever writes into it.
        return None
    from dray.client.files.sources import has_its_size

    with _open(path) as file:
        found = os.fstat(file.fileno())
        return found.st_size if has_its_size(file.fileno(), found) else None


def _open(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as error:
        raise _not_read(path, error) from error


def _not_read(path: str, error: OSError) -> SourceUnreadable:
    return SourceUnreadable(
        f"{path} cannot be read: {error.strerror or error}; nothing was sent", path=path
    )


def _send_plain(
    batch: Batch, transaction: dray.Transaction | None, *, priority: int
) -> list[SentMessage]:
    messages = []
    for path in batch.sources:
        body = _read_whole(path)
        messages.append(
            Message(body=body, label=batch.label_of(path), priority=priority, **batch.properties)
        )
        batch.shown.update(sum(message.body_size for message in messages))
    try:
        ids = _ids_of(batch, messages, transaction)
    except MessageTooLarge as error:
        if error.limit != MESSAGE_BYTES_MAX:
            # It is the properties that are too long, which are as long in a large message.
            raise
        raise _too_large("a message", error.size) from error
    return [
        SentMessage(id, message.label, message.body_size)
        for id, message in zip(ids, messages, strict=True)
    ]


def _ids_of(
    batch: Batch, messages: list[Message], transaction: dray.Transaction | None
) -> list[str]:
    """Send messages; if the answer to a send is lost, find out its outcome."""
    queue, ids = batch.manager.queue(batch.queue), list[str]()
    while len(ids) < len(messages):
        try:
            ids += queue.send_many(messages[len(ids) :], transaction=transaction)
        except InDoubt as doubt:
            if transaction is not None:
                raise
            happened = was_committed(batch.connect, doubt, PATIENCE_S)
            manager_id, number = split_id(doubt.transaction_id)
            first = number - doubt.sent
            count = doubt.sent + (doubt.count if happened else 0)
            ids += [join_id(manager_id, first + at) for at in range(count)]
            if happened:
                continue
            some = f"the first {len(ids)} of {len(messages)} messages were sent, so send the rest"
            rest = some if ids else _NOTHING_SENT
            raise aborted("the send", doubt, rest, retryable=not ids) from doubt
    return ids


def _read_whole(path: str) -> bytes:
    """Read a source that fits a plain message; stop reading beyond the limit."""
    from dray.client.files.sources import has_its_size

    if path == STANDARD_INPUT:
        body = sys.stdin.buffer.read(MESSAGE_BYTES_MAX + 1)
    else:
        with _open(path) as file:
            before = os.fstat(file.fileno())
            body = file.read(MESSAGE_BYTES_MAX + 1)
            after = os.fstat(file.fileno())
            rests = not has_its_size(file.fileno(), before) or (
                (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
            )
        if not rests:
            raise SourceChanged(
                f"{path} changed while Dray read it; nothing was sent, so send it again when it"
                " no longer changes",
                path=path,
            )
    if len(body) > MESSAGE_BYTES_MAX:
        name = "standard input" if path == STANDARD_INPUT else path
        raise _too_large(name, len(body))
    return body


def _too_large(name: str, size: int) -> MessageTooLarge:
    return MessageTooLarge(
        f"{name} is over the {human_size(MESSAGE_BYTES_MAX)} of a plain message with its"
        " properties; send it with --large (LargeMessageQueue), which has no limit",
        size=size,
        limit=MESSAGE_BYTES_MAX,
    )


def _send_large(
    batch: Batch, transaction: dray.Transaction | None, *, how: dict[str, Any], resume: str | None
) -> list[SentMessage]:
    large = dray.LargeMessageQueue(batch.manager.queue(batch.queue), **how)
    sent: list[SentMessage] = []
    follow = _Follow(batch.shown)
    for path in batch.sources:
        label = batch.label_of(path)
        id = large.send(
            sys.stdin.buffer if path == STANDARD_INPUT else Path(path),
            label=label,
            transaction=transaction,
            progress=follow,
            resume=resume,
            **batch.properties,
        )
        sent.append(SentMessage(id, label, follow.next_source()))
    return sent


class _Follow:
    """Adds up the progress of one source after another."""

    def __init__(self, shown: ProgressDisplay) -> None:
        self._shown = shown
        self._before = self._done = 0

    def __call__(self, done: int, _total: int | None) -> None:
        self._done = done
        self._shown.update(self._before + done)

    def next_source(self) -> int:
        """Go on to the next source; the size of the one before."""
        size, self._done = self._done, 0
        self._before += size
        return size


def _tell(
    settings: Settings, queue: str, sent: list[SentMessage], transaction_id: str | None
) -> None:
    if settings.as_json:
        print_json({"queue": queue, "transaction_id": transaction_id, "messages": sent})
        return
    noun = "message" if len(sent) == 1 else "messages"
    size = human_size(sum(message.size for message in sent))
    click.echo(f"sent {len(sent)} {noun}, {size}, to {queue}")
