"""`dray queue`: create, list, show, change, purge and delete queues."""

from __future__ import annotations

from functools import partial
from types import EllipsisType

import click

from dray.cli.option_types import Limit, Size, given
from dray.cli.output import print_json, print_table, printable
from dray.cli.queue_text import record_of, refusal_text, state_of, yes_or_no
from dray.cli.settings import CommandGroup, Settings, asks, make_sure, takes_url_and_json
from dray.errors import QueueExists
from dray.model.classes import QueueKind
from dray.model.queue import QueueInfo
from dray.model.words import counted, human_size, size_text

_TROUBLED = frozenset({"refused", "diverged", "need-validation", "on hold"})
"""States of an outgoing queue that somebody has to know of."""


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list, show, change, purge and delete queues."""


@command.command()
@click.argument("name")
@click.option(
    "--non-transactional",
    is_flag=True,
    help=("Create a queue that takes messages outside transactions only."),
)
@click.option("--quota", type=Size(), help="Most bytes the queue may hold, such as 8GiB.")
@click.option(
    "--journal", is_flag=True, help=("Keep a copy of each received message in the journal.")
)
@click.option("--journal-quota", type=Size(), help="Most bytes the journal of the queue may hold.")
@click.option("--label", default="", help="Description of the queue.")
@click.option(
    "--digest",
    type=click.Choice(["blake3", "sha256"]),
    help="Digest of large messages and files whose sender names none  [default: blake3].",
)
@click.option("--exist-ok", is_flag=True, help="Succeed if the queue exists; do not change it.")
@takes_url_and_json
def create(
    settings: Settings,
    name: str,
    *,
    non_transactional: bool,
    quota: int | None,
    journal: bool,
    journal_quota: int | None,
    label: str,
    digest: str | None,
    exist_ok: bool,
) -> None:
    """Create the queue NAME."""
    with settings.connect() as manager:
        done = "created"
        create = partial(
            manager.create_queue,
            name,
            transactional=not non_transactional,
            quota=quota,
            journal=journal,
            journal_quota=journal_quota,
            label=label,
            digest=digest,
        )
        try:
            create()
        except QueueExists:
            if not exist_ok:
                raise
            create(exist_ok=True)
            done = "exists"
        if settings.as_json:
            print_json(manager.queue(name).info())
        else:
            click.echo(f"{done} {name}")


@command.command("list")
@click.option("--all", "every", is_flag=True, help="Also system queues and idle outgoing queues.")
@takes_url_and_json
def list_queues(settings: Settings, *, every: bool) -> None:
    """List the queues; --json lists all.

    A large message counts with its parts among the messages, and once as a large one. System queues
    and outgoing queues without messages and without trouble are shown with --all only.
    """
    with settings.connect() as manager:
        queues = manager.queues()
    if settings.as_json:
        print_json(queues)
        return
    shown = [each for each in queues if every or _matters(each)]
    columns = [
        "queue",
        "kind",
        "transactional",
        "messages ",
        "large ",
        "size ",
        "journal ",
        "state",
    ]
    print_table(columns, (_row(info) for info in shown))
    for info in shown:
        if info.delivery is not None and info.delivery.refusal is not None:
            click.echo(printable(f"{info.name}: {refusal_text(info.delivery.refusal)}"))
        if info.unreadable_count:
            click.echo(
                printable(
                    f"{info.name}: {counted(info.unreadable_count)} cannot be read; see `dray"
                    " doctor`"
                )
            )
        if info.staged_count or info.staged_dropped:
            click.echo(
                f"{info.name}: staged for batches of Spark: {counted(info.staged_count)};"
                f" dropped by age since the start: {info.staged_dropped:,}"
            )


@command.command()
@click.argument("name")
@takes_url_and_json
def show(settings: Settings, name: str) -> None:
    """Show the current state of one queue."""
    with settings.connect() as manager:
        info = manager.queue(name).info()
    settings.tell_record(info, record_of(info))


@command.command("set")
@click.argument("name")
@click.option("--quota", type=Limit(), help="Most bytes the queue may hold, such as 8GiB, or none.")
@click.option(
    "--journal-quota", type=Limit(), help="Most bytes the journal of the queue may hold, or none."
)
@takes_url_and_json
def set_quotas(
    settings: Settings,
    name: str,
    *,
    quota: int | EllipsisType | None,
    journal_quota: int | EllipsisType | None,
) -> None:
    """Set quotas of the queue NAME; stored messages stay, even above a new quota."""
    if quota is None and journal_quota is None:
        raise click.UsageError("Give --quota, --journal-quota or both.")
    with settings.connect() as manager:
        manager.set_quota(name, given(quota), journal_quota=given(journal_quota))
        info = manager.queue(name).info()
    quotas = {"quota": info.quota, "journal_quota": info.journal_quota}
    line = f"{name}: quota {size_text(info.quota)}, journal quota {size_text(info.journal_quota)}"
    settings.tell({"queue": name, **quotas}, line)


@command.command()
@click.argument("name")
@asks
@takes_url_and_json
def delete(settings: Settings, name: str, *, yes: bool) -> None:
    """Delete the queue NAME with all its messages; it asks if there are any."""
    with settings.connect() as manager:
        info = manager.queue(name).info()
        held = counted(info.message_count + info.journal_count)
        size = info.byte_count + info.journal_bytes
        if info.message_count or info.journal_count:
            make_sure(f"delete {name} with {held}, {human_size(size)}", yes=yes)
        manager.delete_queue(name, info.born)
    told = {"messages": info.message_count + info.journal_count, "bytes": size}
    settings.tell({"deleted": name, **told}, f"deleted {name} with {held}, {human_size(size)}")


@command.command()
@click.argument("name")
@asks
@takes_url_and_json
def purge(settings: Settings, name: str, *, yes: bool) -> None:
    """Remove all messages of the queue NAME; it asks if there are any."""
    with settings.connect() as manager:
        queue = manager.queue(name)
        info = queue.info()
        if info.message_count:
            what = f"{counted(info.message_count)}, {human_size(info.byte_count)}"
            make_sure(f"remove {what} from {name}", yes=yes)
        count = queue.purge(born=info.born, before=info.next_position)
        # Messages that a transaction holds have stayed, and others may have come.
        gone = max(0, info.byte_count - queue.info().byte_count)
    line = f"purged {counted(count)}, {human_size(gone)}, from {name}"
    settings.tell({"purged": name, "messages": count, "bytes": gone}, line)


def _matters(info: QueueInfo) -> bool:
    """Whether a list shows a queue without being asked for all."""
    if info.kind is QueueKind.SYSTEM:
        return False
    calm = info.message_count == 0 and info.state not in _TROUBLED
    return info.kind is not QueueKind.OUTGOING or not calm


def _row(info: QueueInfo) -> list[str]:
    return [
        info.name,
        info.kind,
        yes_or_no(info.transactional),
        str(info.message_count),
        str(info.large_count),
        size_text(info.byte_count),
        str(info.journal_count),
        state_of(info),
    ]
