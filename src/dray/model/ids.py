r"""Identifiers: a manager's is 32 hexadecimal digits, a message's `<manager id>\<number>`.

A number is unique for its queue manager for ever: managers lease ranges of numbers to their
clients, durably, before a client uses one. Transactions draw from the same numbers.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, NewType

from dray.errors import Misuse

ManagerId = NewType("ManagerId", str)
"""32 lower-case hexadecimal digits."""
MessageId = NewType("MessageId", str)
"""`<manager id>\\<number>`; unique across all managers."""
TransactionId = NewType("TransactionId", str)
"""Same form as a message id, drawn from the same numbers."""
LookupId = NewType("LookupId", int)
"""Position in one queue, from 1, growing in commit order, never reused."""

EXPRESS_OUTCOME: Final = 1 << 62
"""Added to a number in the transaction id of a send that may be of express messages.

Nothing durable names such a message, so a queue manager that was started since cannot say whether
the send happened. Numbers count from 1, and after a restore from the time: they get here in 2112.
"""


class Incarnation(NamedTuple):
    """One start of a queue manager: its number, and how many facts its store held then."""

    number: int
    age: int


_GUID = re.compile(r"[0-9a-f]{32}\Z")
_NUMBER = re.compile(r"[0-9]{1,19}\Z")
_SHOWN_CHARACTERS_MAX = 80


def join_id(manager: ManagerId, number: int) -> str:
    """Compose the text form of a message or transaction id."""
    return f"{manager}\\{number}"


def message_ids(manager: ManagerId, first: int, count: int) -> list[MessageId]:
    """The ids of so many messages with numbers in a row."""
    before = join_id(manager, 0)[:-1]
    return [MessageId(f"{before}{number}") for number in range(first, first + count)]


def split_id(text: str) -> tuple[ManagerId, int]:
    """Take an id apart; raises `Misuse` if the text has not its form."""
    manager, _, number = text.partition("\\")
    if not _GUID.match(manager) or not _NUMBER.match(number):
        shown = text[:_SHOWN_CHARACTERS_MAX]
        raise Misuse(
            f"{shown!r} is not an id: expected 32 hexadecimal digits, '\\' and a number; use the id"
            " as the answer or the error gave it"
        )
    return ManagerId(manager), int(number)
