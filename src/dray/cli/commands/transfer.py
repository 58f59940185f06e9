"""`dray transfer`: move files between two running programs.

If either end is interrupted, it keeps its state, and `dray transfer resume` continues the transfer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import dray
from dray.cli.incoming_files import patiently
from dray.cli.option_types import Seconds, Size
from dray.cli.output import printable, printable_path
from dray.cli.progress import ProgressDisplay, progress
from dray.cli.settings import CommandGroup, Settings, takes_url_and_json
from dray.errors import (
    DrayError,
    MessageNotFound,
    Misuse,
    QueueNotFound,
    ReceiveTimeout,
    TargetUnwritable,
    TransferCancelled,
    TransferSourceChanged,
    TransferTimeout,
)
from dray.model.limits import (
    TRANSFER_REQUEST_TIMEOUT_S,
    TRANSFER_RETRY_S_MAX,
    TRANSFER_WINDOW,
)
from dray.model.names import parse_queue_address
from dray.model.transfer import TransferStatus
from dray.model.words import counted, human_size, size_text

_LINGER_S = 2 * TRANSFER_RETRY_S_MAX
"""After an offer that was cancelled, or whose file has changed, for a consumer who waits for an
answer: he asks that often at least."""

_LOOK_S = 5.0
"""Between two looks for the reference of an offer; a consumer joins sooner once it has it."""

_of_a_consumer = click.option(
    "--consumer", default="", metavar="NUMBER", help="Act on this consumer of an offer only."
)


@click.group(cls=CommandGroup)
def command() -> None:
    """Offer files to programs that run at the same time, accept files, manage transfers."""


@command.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("queue")
@click.option(
    "--many", is_flag=True, help=("Serve every consumer that asks in time, not only the first.")
)
@click.option(
    "--timeout",
    type=Seconds(0, min_open=True),
    help="Seconds in which consumers may ask for the file  [default: 30].",
)
@click.option(
    "--no-timeout", is_flag=True, help=("Let consumers ask for the file as long as it is offered.")
)
@click.option(
    "--fragment-size",
    default="1MiB",
    type=Size(),
    show_default=True,
    help="Most bytes of one fragment.",
)
@click.option(
    "--window",
    type=click.IntRange(1),
    default=TRANSFER_WINDOW,
    help="Most fragments in flight without an acknowledgment  [default: 50].",
)
@click.option(
    "--digest",
    type=click.Choice(["blake3", "sha256"]),
    help="Digest of the file  [default: the queue's, else blake3].",
)
@click.option("--listen", metavar="HOST", help="Address at which consumers may connect directly.")
@click.option("--relayed", is_flag=True, help="Send through the queue managers only.")
@takes_url_and_json
def offer(
    settings: Settings,
    file: Path,
    queue: str,
    *,
    many: bool,
    timeout: float | None,
    no_timeout: bool,
    fragment_size: int,
    window: int,
    digest: str | None,
    listen: str | None,
    relayed: bool,
) -> None:
    """Offer FILE at QUEUE and serve it until the transfer is done.

    If an unfinished offer of the same file to the same queue exists, the command resumes that
    offer.
    """
    if no_timeout and timeout is not None:
        raise click.UsageError("either --timeout or --no-timeout, not both")
    limit = None if no_timeout else timeout or TRANSFER_REQUEST_TIMEOUT_S
    with settings.connect() as manager, _those_told_who_wait(manager):
        offered = manager.offer_file(
            file,
            queue,
            fragment_size=fragment_size,
            window_size=window,
            request_timeout=limit,
            consumers="many" if many else "one",
            listen=None if relayed else listen or "auto",
            digest=digest,
        )
        _serve(settings, manager, offered)


@command.command()
@click.argument("queue")
@click.option(
    "--to",
    "target",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Directory or new file to save to  [default: that of an unfinished one, else here].",
)
@click.option(
    "--timeout", type=Seconds(0), help="Seconds to wait for an offer  [default: no limit]."
)
@click.option(
    "--direct/--relayed",
    default=None,
    help="Connect directly to the producer, or never  [default: with drays:// only through TLS].",
)
@takes_url_and_json
def accept(
    settings: Settings,
    queue: str,
    *,
    target: Path | None,
    timeout: float | None,
    direct: bool | None,
) -> None:
    """Accept the next file offered at QUEUE; resume an unfinished one from there first.

    An unfinished file whose producer was silent comes after the files that are offered now. If its
    producer stays silent, the command accepts a file that was offered meanwhile.
    """
    with settings.connect() as manager:
        incoming = patiently(
            lambda wait: manager.accept_file(queue, wait, direct=direct),
            timeout,
            lambda: f"waiting for an offer in {queue!r} (Ctrl-C ends it)",
            f"no file was offered in {queue!r}",
        )
        if target is not None and incoming.path not in {None, _place(incoming, target)}:
            click.echo(
                f"dray: this resumes {incoming.transfer_id}, which is saved to"
                f" {printable_path(str(incoming.path))}, not to {printable_path(str(target))}",
                err=True,
            )
        try:
            _save(settings, incoming, incoming.path or target)
        except TransferTimeout as error:
            # An offer that came meanwhile may end before this command is run again.
            try:
                incoming = manager.accept_file(queue, 0, direct=direct)
            except ReceiveTimeout:
                raise error from None
            click.echo(f"dray: {error}; this accepts {printable(incoming.label)}", err=True)
            _save(settings, incoming, incoming.path or target)


@command.command("list")
@takes_url_and_json
def list_transfers(settings: Settings) -> None:
    """List the transfers through this queue manager that can be resumed, in both directions."""
    with settings.connect() as manager:
        found = manager.unfinished_transfers()
    columns = ["id", "direction", "state", "done ", "size ", "queue", "path"]
    settings.tell_all(found, columns, _row)


@command.command()
@click.argument("transfer_id", metavar="ID")
@_of_a_consumer
@takes_url_and_json
def suspend(settings: Settings, transfer_id: str, consumer: str) -> None:
    """Suspend the transfer ID in the program that runs it; `resume` continues it there."""
    with settings.connect() as manager:
        running = manager.running_transfer(transfer_id)
        if running is not None:
            running.suspend(consumer)
        elif transfer_id not in {each.transfer_id for each in manager.unfinished_transfers()}:
            raise Misuse(
                f"there is no unfinished file transfer {transfer_id!r} here; `dray transfer list`"
                " shows them"
            )
    settings.tell({"suspended": transfer_id}, f"suspended {transfer_id}")


@command.command()
@click.argument("transfer_id", metavar="ID")
@_of_a_consumer
@click.option(
    "--to",
    "target",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="Receive the file here instead, from its beginning; what was received is removed.",
)
@takes_url_and_json
def resume(settings: Settings, transfer_id: str, consumer: str, *, target: Path | None) -> None:
    """Resume the transfer ID: an offer, or a file that was being received.

    If a running program suspended the transfer, it continues in that program, else here.
    """
    with settings.connect() as manager:
        try:
            with _those_told_who_wait(manager):
                found = manager.resume_transfer(transfer_id)
        except Misuse:
            running = manager.running_transfer(transfer_id)
            if running is None or target is not None:
                raise
            running.resume(consumer)
            settings.tell({"resumed": transfer_id}, f"resumed {transfer_id}")
            return
        if isinstance(found, dray.Offer):
            if target is not None:
                raise click.UsageError(f"{transfer_id} is an offer; --to is for a received file")
            with _those_told_who_wait(manager):
                _serve(settings, manager, found)
        else:
            _save(settings, found, target or found.path)


@command.command()
@click.argument("transfer_id", metavar="ID")
@_of_a_consumer
@takes_url_and_json
def cancel(settings: Settings, transfer_id: str, consumer: str) -> None:
    """Cancel the transfer ID: remove the received data and tell the other end."""
    with settings.connect() as manager:
        manager.cancel_transfer(transfer_id, consumer)
        settings.tell({"cancelled": transfer_id}, f"cancelled {transfer_id}")
        manager.linger(_LINGER_S)


@contextmanager
def _those_told_who_wait(manager: dray.Manager) -> Iterator[None]:
    """After a failed offer, stay until every consumer that has its reference is told."""
    try:
        yield
    except (TransferCancelled, TransferSourceChanged):
        manager.linger(_LINGER_S)
        raise


def _serve(settings: Settings, manager: dray.Manager, offered: dray.Offer) -> None:
    status = offered.status
    with (
        _reference_watched(manager, offered),
        progress(f"offering {status.label}", status.bytes_total) as bar,
    ):
        for each in offered:
            _show(bar, each)
    offered.wait()
    done = [each for each in offered.consumers if not each.error]
    settings.tell(
        {"offer": offered.status, "consumers": offered.consumers},
        f"sent {printable(status.label)} ({human_size(status.bytes_total)}) to"
        f" {counted(len(done), 'consumer')},"
        f" {counted(offered.status.fragments_resent, 'fragment')} resent",
    )


@contextmanager
def _reference_watched(manager: dray.Manager, offered: dray.Offer) -> Iterator[None]:
    """Say so once if an offer without a consumer has no reference in its queue any more."""
    over = threading.Event()
    thread = threading.Thread(target=_watch_reference, args=(manager, offered, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch_reference(manager: dray.Manager, offered: dray.Offer, over: threading.Event) -> None:
    name, missed = offered.status.queue, 0
    # At another queue manager it cannot be looked for.
    while not parse_queue_address(name).remote and not over.wait(_LOOK_S):
        if offered.consumers:
            return
        try:
            manager.queue(name).peek_by_correlation_id(offered.transfer_id, 0)
            missed = 0
        except (MessageNotFound, QueueNotFound):
            missed += 1
        except DrayError:
            # The queue manager may be away; it is asked again.
            continue
        # A consumer takes the reference before it joins, so one look does not tell.
        if missed == 2:  # noqa: PLR2004
            click.echo(
                f"dray: the reference of {offered.transfer_id} is no longer in {name!r}, so no"
                " consumer can ask for the file unless it has the reference already; cancel this"
                " offer with `dray transfer cancel`, and offer the file again",
                err=True,
            )
            return


def _place(incoming: dray.Incoming, target: Path) -> Path:
    """The path that a file is saved to, given a directory or a path of its own."""
    return (target / incoming.file_name if target.is_dir() else target).absolute()


def _save(settings: Settings, incoming: dray.Incoming, target: Path | None) -> None:
    place = _place(incoming, target or Path())
    if place.exists() and not (place == incoming.path and _is_saved(incoming, place)):
        incoming.close()
        raise TargetUnwritable(
            f"{place} exists and is not replaced; name another path with `dray transfer resume"
            f" {incoming.transfer_id} --to PATH`",
            path=str(place),
        )
    with progress(f"receiving {incoming.label}", incoming.size) as bar:
        saved = incoming.save_to(place, bar.update)
    kind, digest = incoming.digest_kind, incoming.digest.hex()
    settings.tell(
        {"path": str(saved), "size": incoming.size, "digest": digest, "digest_kind": kind},
        f"saved {saved} ({human_size(incoming.size)}), {kind} {digest}",
    )


def _is_saved(incoming: dray.Incoming, place: Path) -> bool:
    """Whether a kill came when the file had its name already."""
    from dray.large.digests import hashed_file

    try:
        if not place.is_file() or place.stat().st_size != incoming.size:
            return False
        with place.open("rb", buffering=0) as file:
            return hashed_file(file, incoming.digest_kind).digest() == incoming.digest
    except OSError:
        # The command replaces no file that it cannot read.
        return False


def _show(bar: ProgressDisplay, status: TransferStatus) -> None:
    resent = f", {status.fragments_resent} resent" if status.fragments_resent else ""
    bar.describe(f"{status.label}: {status.state}{resent}")
    bar.update(status.bytes_done, status.bytes_total)


def _row(status: TransferStatus) -> list[str]:
    return [
        status.transfer_id,
        status.direction,
        str(status.state),
        size_text(status.bytes_done),
        size_text(status.bytes_total),
        status.queue,
        status.path,
    ]
