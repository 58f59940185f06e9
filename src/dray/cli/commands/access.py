"""`dray access`: what a caller may do at a queue, and which rule says so."""

from __future__ import annotations

import click

from dray.cli.groups import CommandGroup
from dray.cli.output import print_json, print_table
from dray.cli.settings import Settings, takes_json


@click.group(cls=CommandGroup)
def command() -> None:
    """Explain what a caller may do."""


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
    "--group", "groups", multiple=True, metavar="NAME", help="A group of the caller; repeatable."
)
@takes_json
@click.pass_obj
def explain(
    settings: Settings, who: str, queue: str, *, config: str, groups: tuple[str, ...]
) -> None:
    """Tell each right of WHO (user:NAME, cert:NAME, token:NAME, anyone) at QUEUE, and its rule.

    The owner of the queue manager may do everything. For a queue of another queue manager, such as
    dray://host:7340/orders, the right to forward to its host is told.
    """
    from dray.daemon.config import read_options
    from dray.model.access import Verb
    from dray.model.callers import Caller
    from dray.model.names import parse_queue_address

    access = read_options(config).access_rules()
    caller = Caller(who, tuple(f"group:{each}" for each in groups))
    address = parse_queue_address(queue)
    host = f"{address.host}:{address.port}" if address.remote else ""
    found: list[tuple[str, str | None]] = []
    for verb in Verb:
        if verb is not Verb.FORWARD:
            found.append((str(verb), access.reason(caller, verb, str(address))))
        elif host:
            found.append((f"{verb} to {host}", access.reason(caller, verb, host)))
    if settings.as_json:
        print_json([{"right": right, "rule": rule} for right, rule in found])
        return
    rows = ([right, "no" if rule is None else "yes", rule or ""] for right, rule in found)
    print_table(["right", "allowed", "by"], rows)
