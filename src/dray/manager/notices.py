"""Warnings of the manager for its operator: plain values that the daemon writes to its log.

A notice has a kind that never changes, a subject (a queue, a peer, a file) and one sentence that
says what happened and what to do. The sentence speaks of one event; `times` says how often it
happened. Between two looks of the daemon equal notices are one, and their times add up.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from dray.model.limits import NOTICES_MAX

OTHERS: Final = "others"
"""The subject of notices for which there was no place left."""


class NoticeKind(enum.StrEnum):
    """Kinds of notices, for filters of the log."""

    ACCESS_UNWRITTEN = "access-log-unwritten"
    ACKNOWLEDGMENT_LOST = "acknowledgment-lost"
    ANSWER_UNSENT = "answer-unsent"
    AT_START = "at-start"
    CERTIFICATE_ENDS = "certificate-ends"
    CONNECTION_ENDED = "connection-ended"
    CONNECTION_REFUSED = "connection-refused"
    CONNECTION_WAITS = "connection-waits"
    DAMAGED = "damaged-message"
    DEAD_LETTER_LOST = "dead-letter-lost"
    DESTINATION_BEHIND = "destination-behind"
    ENDED_DAMAGED = "ended-damaged"
    ENDED_DELETED = "ended-deleted"
    ENDED_EXPIRED = "ended-expired"
    ENDED_IN_DOUBT = "ended-in-doubt"
    ENDED_OTHERWISE = "ended-otherwise"
    ENDED_PURGED = "ended-purged"
    ENDED_REJECTED = "ended-rejected"
    END_UNTOLD = "end-of-stream-untold"
    DISK_ACCEPTS = "disk-accepts"
    DISK_REFUSES = "disk-refuses"
    DIVERGED = "diverged"
    KEY_NOT_SHOWN = "key-not-shown"
    LINK_DOWN = "link-down"
    LINK_REFUSED = "link-refused"
    LINK_UP = "link-up"
    NOT_KEPT = "not-kept-until-confirmed"
    OLDER_COPY = "older-copy"
    OPEN = "open"
    OTHER_CALLER = "other-caller"
    OTHER_COPY = "other-copy"
    OTHER_MANAGER = "other-manager-at-address"
    QUEUE_FILE = "queue-file"
    QUEUE_FILES_WAIT = "queue-files-wait"
    REFUSED_ACCESS = "refused-access-denied"
    REFUSED_FULL = "refused-quota-exceeded"
    REFUSED_HOPS = "refused-hop-count-exceeded"
    REFUSED_KIND = "refused-not-transactional"
    REFUSED_NO_QUEUE = "refused-queue-not-found"
    REPAIR_WAITS = "repair-waits"
    STAGED_DROPPED = "staged-dropped"
    STATUS_JUNK = "no-status-message"
    STREAM_GOES_ON = "stream-goes-on"
    STREAM_REFUSED = "stream-refused"
    TLS_FAILED = "tls-handshake-failed"
    UNREADABLE_LARGE = "unreadable-large-message"
    UPLOAD_DROPPED = "upload-dropped"
    WORK_STOPPED = "work-stopped"


EACH_ONCE: Final = frozenset({NoticeKind.AT_START, NoticeKind.QUEUE_FILE})
"""Kinds that a start of the manager tells: each sentence is logged, for none repeats another."""


FOR_INFORMATION: Final = frozenset({NoticeKind.LINK_DOWN, NoticeKind.LINK_UP})
"""Kinds that are logged at the level "info": links come and go, and are tried again."""
BY_SENTENCE: Final = frozenset(
    each for each in NoticeKind if each.startswith(("ended-", "refused-"))
)
"""Kinds of few sentences, of which each has a count of its own in the log."""


class Notice(NamedTuple):
    """One warning."""

    kind: str
    subject: str
    sentence: str
    times: int = 1

    def __str__(self) -> str:
        """The subject and the sentence, for people."""
        return f"{self.subject}: {self.sentence}"


class Notices:
    """Notices for the operator that the daemon has not fetched yet."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}

    def add(self, kind: NoticeKind, subject: str, sentence: str, times: int = 1) -> None:
        """Note what happened `times` times."""
        key = (str(kind), subject, sentence)
        if key not in self._counts and len(self._counts) >= NOTICES_MAX:
            key = (str(kind), OTHERS, "the same happened elsewhere; read the lines before")
        self._counts[key] = self._counts.get(key, 0) + times

    def take(self) -> list[Notice]:
        """All that was noted since the last call, in the order in which it first happened."""
        if not self._counts:
            return []
        found, self._counts = self._counts, {}
        return [Notice(*key, times) for key, times in found.items()]
