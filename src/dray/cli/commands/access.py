"""`dray access`: what a caller may do at a queue and which rule says so, and what callers did."""

from __future__ import annotations

import os
from collections import deque
from pathlib import Path

import click

from dray.cli.commands.storage import tell_chain
from dray.cli.settings import MOST, CommandGroup, Settings, takes_json


@click.group(cls=CommandGroup)
def command() -> None:
    """Explain what a caller may do, and list what callers did."""


@command.command()
@click.argument("who")
@click.argument("queue")
@click.option(
    "--config",
    metavar="FILE.toml",
    required=True,
    type=click.Path(dir_okay=False),
    help="File of options with the access rules.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="A group of the caller; repeatable  [default: those of the account on this machine].",
)
@takes_json
def explain(
    settings: Settings, who: str, queue: str, *, config: str, groups: tuple[str, ...]
) -> None:
    """Tell each right of WHO at QUEUE, and the rule that gives it.

    WHO is user:NAME, group:NAME, cert:NAME, token:NAME or anyone.

    The owner of the queue manager may do everything. At journals and dead-letter queues, peek and
    receive need the right keep.

    For a queue of another queue manager, such as dray://host:7340/orders, it tells the right to
    forward to its host.
    """
    from dray.daemon.config import read_file
    from dray.model.access import Verb
    from dray.model.callers import ANYONE, Caller
    from dray.model.names import SYSTEM, parse_queue_address

    if not who.startswith(("user:", "group:", "cert:", "token:")) and who != ANYONE:
        raise click.UsageError(
            f"{who!r} is no caller; write user:NAME, group:NAME, cert:NAME, token:NAME or anyone."
        )
    access = read_file(config).access_rules()
    named = [who] if who.startswith("group:") else []
    named += [f"group:{each}" for each in groups or _groups_of(who)]
    caller = Caller(who, tuple(named))
    address = parse_queue_address(queue)
    host = f"{address.host}:{address.port}" if address.remote else ""
    reads_kept = address.queue == SYSTEM or address.sub_queue.casefold() == "journal"
    found: list[dict[str, str | None]] = []
    for verb in Verb:
        if verb is not Verb.FORWARD:
            asked = Verb.KEEP if reads_kept and verb in {Verb.PEEK, Verb.RECEIVE} else verb
            found.append({"right": str(verb), "rule": access.reason(caller, asked, str(address))})
        elif host:
            found.append({"right": f"{verb} to {host}", "rule": access.reason(caller, verb, host)})
    settings.tell_all(found, ["right", "allowed", "by"], _row)


@command.command()
@click.option("--data", required=True, metavar="DIR", type=Path, help="The data directory.")
@click.option(
    "--last", metavar="N", type=click.IntRange(1, MOST), help="List the newest N entries only."
)
@takes_json
def log(settings: Settings, *, data: Path, last: int | None) -> None:
    """List refusals and administrative acts of callers, and verify the access log.

    The command verifies the whole log, also with --last. It may run beside the queue manager.
    """
    from dray.errors import StoreError
    from dray.store.access_log import ACCESS_NAME, read_access_log, verify_access_log

    name, report = verify_access_log(data)
    if report.intact and not (data / ACCESS_NAME).exists():
        raise StoreError(
            f"{data} has no {ACCESS_NAME}; a queue manager writes it if its option `audit` is true"
        )
    entries = deque(read_access_log(data), last)
    columns = ["number ", "time", "act", "caller", "address", "session ", "frame", "subject"]
    columns.append("times ")
    rows = (
        [
            str(each.number),
            each.time,
            each.act,
            each.caller,
            each.address,
            str(each.session or ""),
            each.frame,
            each.subject,
            str(each.times),
        ]
        for each in entries
    )
    told: dict[str, object] = {"file": name, "list": list(entries)}
    tell_chain(settings, data / name, report, told, columns=columns, rows=rows)


def _row(told: dict[str, str | None]) -> list[str]:
    rule = told["rule"]
    return [str(told["right"]), "no" if rule is None else "yes", rule or ""]


def _groups_of(who: str) -> list[str]:
    """The groups that an account has on this machine."""
    import grp
    import pwd

    if not who.startswith("user:"):
        return []
    try:
        account = pwd.getpwnam(who.removeprefix("user:"))
    except KeyError:
        return []
    numbers = os.getgrouplist(account.pw_name, account.pw_gid)
    return [each.gr_name for each in grp.getgrall() if each.gr_gid in numbers]
