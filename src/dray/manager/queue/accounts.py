"""The manager's quotas, and under which of them a queue is."""

from __future__ import annotations

import enum

from dray.manager.queue.system import IN_JOURNAL_QUOTA, INTERNAL


class Account(enum.Enum):
    """Against which of the manager's quotas a queue counts."""

    COMPUTER = "computer"
    JOURNAL = "journal"
    EXEMPT = "exempt"

    __hash__ = object.__hash__  # Asked several times for each message, and there is one of each.


def account_of(number: int) -> Account:
    """The account of a queue, by its number."""
    if number in INTERNAL:
        return Account.EXEMPT
    return Account.JOURNAL if number in IN_JOURNAL_QUOTA else Account.COMPUTER
