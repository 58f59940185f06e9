"""`dray transaction`: outcomes of transactions and sends; the second phase of prepared ones.

A lost answer leaves a commit or a send in doubt; the error names its id. The queue manager knows
the outcome from durable facts.
"""

from __future__ import annotations

import click

from dray.cli.option_types import TransactionIdText
from dray.cli.settings import CommandGroup, Settings, takes_url_and_json
from dray.model.classes import TransactionStatus

_MEANING = {
    TransactionStatus.COMMITTED: "it happened; do not do it again",
    TransactionStatus.ABORTED: "it did not happen and never will; do it again",
    TransactionStatus.PENDING: "it is not decided yet; ask again",
    TransactionStatus.PREPARED: "it waits for `dray transaction commit` or `abort`",
    TransactionStatus.UNKNOWN: "the queue manager does not know; look for what it did",
}


@click.group(cls=CommandGroup)
def command() -> None:
    """Resolve transactions and sends that are in doubt, and prepared transactions."""


@command.command()
@click.argument("transaction_id", metavar="ID", type=TransactionIdText())
@takes_url_and_json
def outcome(settings: Settings, transaction_id: str) -> None:
    """Show the outcome of the transaction or send ID.

    The queue manager calls an unknown one aborted, and makes sure that it never commits.
    """
    with settings.connect() as manager:
        status = manager.outcome(transaction_id)
    _tell(settings, transaction_id, status, f"{status}: {_MEANING.get(status, 'ask again')}")


@command.command()
@takes_url_and_json
def prepared(settings: Settings) -> None:
    """List the prepared transactions that are neither committed nor aborted."""
    with settings.connect() as manager:
        found = manager.prepared()
    settings.tell(found, *found)


@command.command()
@click.argument("transaction_id", metavar="ID", type=TransactionIdText())
@takes_url_and_json
def commit(settings: Settings, transaction_id: str) -> None:
    """Commit the prepared transaction ID; repeating it changes nothing."""
    with settings.connect() as manager:
        manager.commit_prepared(transaction_id)
    _tell(settings, transaction_id, "committed")


@command.command()
@click.argument("transaction_id", metavar="ID", type=TransactionIdText())
@takes_url_and_json
def abort(settings: Settings, transaction_id: str) -> None:
    """Abort the prepared transaction ID; repeating it changes nothing."""
    with settings.connect() as manager:
        manager.abort_prepared(transaction_id)
    _tell(settings, transaction_id, "aborted")


def _tell(settings: Settings, transaction_id: str, status: str, line: str = "") -> None:
    told = {"transaction_id": transaction_id, "status": str(status)}
    settings.tell(told, line or f"{status} {transaction_id}")
