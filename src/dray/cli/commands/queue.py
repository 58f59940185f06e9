"""`dray queue`: create, list, show, purge and delete queues."""

from __future__ import annotations

import click
import msgspec

from dray.cli.groups import CommandGroup
from dray.cli.output import print_json, print_record, print_table, size_text, time_text
from dray.cli.settings import Settings, takes_url_and_json
from dray.cli.sizes import Size
from dray.model.queue import DeliveryInfo, QueueInfo, Refusal

_REFUSED = "refused"


@click.group(cls=CommandGroup)
def command() -> None:
    """Create, list, show, delete and purge queues."""


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
@click.pass_obj
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
        queue = manager.create_queue(
            name,
            transactional=not non_transactional,
            quota=quota,
            journal=journal,
            journal_quota=journal_quota,
            label=label,
            digest=digest,
            exist_ok=exist_ok,
        )
        if settings.as_json:
            print_json(queue.info())
        else:
            click.echo(f"created {name}")


@command.command("list")
@takes_url_and_json
@click.pass_obj
def list_queues(settings: Settings) -> None:
    """List all queues, including system queues and outgoing queues."""
    with settings.connect() as manager:
        queues = manager.queues()
    if settings.as_json:
        print_json(queues)
        return
    columns = ["queue", "kind", "transactional", "messages ", "size ", "journal ", "state"]
    print_table(columns, (_row(info) for info in queues))
    for info in queues:
        if info.delivery is not None and info.delivery.refusal is not None:
            click.echo(f"{info.name}: {_refusal(info.delivery.refusal)}")
        if info.staged_count or info.staged_dropped:
            click.echo(
                f"{info.name}: {info.staged_count} messages are staged for batches of Spark, and"
                f" {info.staged_dropped} were dropped by age since the start"
            )


@command.command()
@click.argument("name")
@takes_url_and_json
@click.pass_obj
def show(settings: Settings, name: str) -> None:
    """Show the current state of one queue."""
    with settings.connect() as manager:
        info = manager.queue(name).info()
    if settings.as_json:
        print_json(info)
        return
    told = {key: str(value) for key, value in msgspec.structs.asdict(info).items()}
    del told["delivery"]
    told["state"] = _state(info)
    for size in ("byte_count", "journal_bytes", "express_bytes", "quota", "journal_quota"):
        told[size] = size_text(getattr(info, size))
    told["transactional"] = _yes_or_no(info.transactional)
    if info.delivery is not None:
        told |= _delivery(info.delivery)
    print_record({key.replace("_", " "): value for key, value in told.items()})


def _refusal(refusal: Refusal) -> str:
    """Why, how often and since when a destination refuses."""
    messages = f"{refusal.count} message{'s' * (refusal.count != 1)}"
    since = f"{messages} since {time_text(refusal.since)}"
    return f"refused ({refusal.code}), {since}: {refusal.sentence}"


def _state(info: QueueInfo) -> str:
    refusal = info.delivery.refusal if info.delivery is not None else None
    if refusal is None or info.state != _REFUSED:
        return info.state
    return f"{info.state} ({refusal.code})"


def _delivery(delivery: DeliveryInfo) -> dict[str, str]:
    """How the delivery of an outgoing queue stands, and what its connection has been through."""
    told = {key: str(value) for key, value in msgspec.structs.asdict(delivery).items()}
    del told["history"]
    for time in ("next_attempt", "last_ack_time", "next_resend"):
        told[time] = time_text(getattr(delivery, time))
    told["refusal"] = _refusal(delivery.refusal) if delivery.refusal is not None else "-"
    told["in_flight_bytes"] = size_text(delivery.in_flight_bytes)
    told["sequence_id"] = f"{delivery.sequence_id:#x}"
    for at, change in enumerate(delivery.history, 1):
        times = f", {change.times} times" if change.times > 1 else ""
        reason = f": {change.reason}" if change.reason else ""
        told[f"change {at}"] = f"{time_text(change.until)} {change.state}{times}{reason}"
    return told


@command.command()
@click.argument("name")
@takes_url_and_json
@click.pass_obj
def delete(settings: Settings, name: str) -> None:
    """Delete the queue NAME with all its messages."""
    with settings.connect() as manager:
        manager.delete_queue(name)
    _tell(settings, {"deleted": name}, f"deleted {name}")


@command.command()
@click.argument("name")
@takes_url_and_json
@click.pass_obj
def purge(settings: Settings, name: str) -> None:
    """Remove all messages of the queue NAME."""
    with settings.connect() as manager:
        count = manager.queue(name).purge()
    _tell(settings, {"purged": name, "messages": count}, f"purged {count} messages from {name}")


def _tell(settings: Settings, record: dict[str, object], line: str) -> None:
    if settings.as_json:
        print_json(record)
    else:
        click.echo(line)


def _row(info: QueueInfo) -> list[str]:
    return [
        info.name,
        info.kind,
        _yes_or_no(info.transactional),
        str(info.message_count),
        size_text(info.byte_count),
        str(info.journal_count),
        _state(info),
    ]


def _yes_or_no(value: bool) -> str:  # noqa: FBT001 - the value is the thing
    return "yes" if value else "no"
