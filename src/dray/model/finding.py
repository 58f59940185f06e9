"""One thing that keeps messages from moving, and what to do about it."""

from __future__ import annotations

import msgspec


class DoctorFinding(msgspec.Struct, frozen=True):
    """A finding of `Manager.doctor`.

    `code` never changes. `queue` is the queue that it is about, or empty. `sentence` says what was
    found and what to do.
    """

    code: str
    queue: str
    sentence: str
