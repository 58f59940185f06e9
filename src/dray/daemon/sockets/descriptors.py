"""The number of files and sockets that the process may have open, and who has how many.

Without a share kept for it, the store could not open its next file once callers have taken all
descriptors; so callers are turned away before that.
"""

from __future__ import annotations

import resource

from dray.daemon.limits import DESCRIPTORS_FOR_LINKS, FILES_LENT_MANY, FILES_PER_CALLER_MAX
from dray.errors import InvalidConfiguration
from dray.model.limits import SESSIONS_MAX
from dray.store.limits import HEAP_DESCRIPTORS, HEAP_READERS

DESCRIPTORS_FOR_FILES = FILES_LENT_MANY + FILES_PER_CALLER_MAX
"""Files that callers lend; one caller may lend all of its share beside the others."""
DESCRIPTORS_KEPT = HEAP_DESCRIPTORS + HEAP_READERS + DESCRIPTORS_FOR_LINKS + DESCRIPTORS_FOR_FILES
"""Descriptors that the daemon keeps from its callers."""


def raise_limit() -> None:
    """Take what the system allows, for a process of our own.

    Raises `InvalidConfiguration` if it does not allow enough.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _least(DESCRIPTORS_KEPT + SESSIONS_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if sessions_max() < 1:
        raise InvalidConfiguration(
            f"the limit of {wanted} open files leaves none for clients: the queue manager itself"
            f" needs {DESCRIPTORS_KEPT}; raise it (`ulimit -n`, or LimitNOFILE of its service)"
        )


def sessions_max() -> int:
    """The number of callers that there may be at a time, by the limit as it is now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _least(SESSIONS_MAX + DESCRIPTORS_KEPT, soft) - DESCRIPTORS_KEPT


def _least(count: int, limit: int) -> int:
    return count if limit == resource.RLIM_INFINITY else min(count, limit)
