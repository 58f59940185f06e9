"""The queues that every manager has from its first start, with fixed numbers.

    2  admin_queue$     3  notify_queue$     4  order_queue$      internal, in no quota (S3-2)
    5  system$;journal     copies of what was delivered and whose sender asked for one
    6  system$;deadletter  7  system$;deadxact   what could not be delivered

The first three carry the names and numbers of the original (semantics 3.2); a store in which the
description of one is missing is damaged (S3-16). Users' queues are numbered from 16.
"""

from __future__ import annotations

from typing import Final

from dray.manager.facts import QueueCreated
from dray.model.classes import QueueKind
from dray.model.names import DEAD_LETTER_QUEUES, SYSTEM_JOURNAL
from dray.model.queue import QueueOptions

ADMIN_QUEUE: Final = 2
NOTIFY_QUEUE: Final = 3
ORDER_QUEUE: Final = 4
COMPUTER_JOURNAL: Final = 5
DEAD_LETTERS: Final = 6
DEAD_TRANSACTIONAL: Final = 7
FIRST_USER_QUEUE: Final = 16

INTERNAL: Final = frozenset({ADMIN_QUEUE, NOTIFY_QUEUE, ORDER_QUEUE})
IN_JOURNAL_QUOTA: Final = frozenset({COMPUTER_JOURNAL, DEAD_LETTERS, DEAD_TRANSACTIONAL})

SYSTEM_QUEUES: Final = (
    (ADMIN_QUEUE, "admin_queue$", False),
    (NOTIFY_QUEUE, "notify_queue$", False),
    (ORDER_QUEUE, "order_queue$", False),
    (COMPUTER_JOURNAL, SYSTEM_JOURNAL, True),
    (DEAD_LETTERS, DEAD_LETTER_QUEUES[0], False),
    (DEAD_TRANSACTIONAL, DEAD_LETTER_QUEUES[1], True),
)
"""Number, name and whether it is transactional."""


def created_at_birth() -> list[QueueCreated]:
    """The facts that make the system queues of a new store."""
    return [
        QueueCreated(number, name, str(QueueKind.SYSTEM), QueueOptions(transactional=transactional))
        for number, name, transactional in SYSTEM_QUEUES
    ]
