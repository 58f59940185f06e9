"""The text files of queues follow the facts: each says what the state says of its queue."""

from __future__ import annotations

from dray.manager.facts import (
    Committed,
    Fact,
    QueueCreated,
    QueueDeleted,
    QueueOptionsSet,
    QuotaSet,
)
from dray.manager.notices import NoticeKind, Notices
from dray.manager.queue import QueueTable, StoredQueue
from dray.model.classes import QueueKind
from dray.store.lqs import FOLDER, Description, QueueFiles, file_name


def path_in_file(queue: StoredQueue) -> str:
    r"""The path of a queue as its file gives it: `\private$\orders` for a private one."""
    return f"\\private$\\{queue.name}" if queue.kind is QueueKind.PRIVATE else queue.name


def describe_in_file(queue: StoredQueue) -> Description:
    """The content of the file of a queue."""
    return Description(
        path=path_in_file(queue),
        kind=str(queue.kind),
        label=queue.options.label,
        quota=queue.quota,
        journal_quota=queue.options.journal_quota,
        journal=queue.options.journal,
        transactional=queue.options.transactional,
        system=queue.kind is QueueKind.SYSTEM,
        digest=queue.options.digest,
    )


class FollowedFiles:
    """The files of one manager's queues, written anew as facts change the queues."""

    def __init__(self, files: QueueFiles, queues: QueueTable, notices: Notices) -> None:
        """Write nothing before `begin`: first files and state have to fit (`change/lqs.py`)."""
        self.files = files
        self.names: dict[int, str] = {}
        """By queue; those that are known."""
        self._queues = queues
        self._notices = notices
        self._parts: dict[int, list[int]] = {}
        """Journal and sub-queues of a queue; they are gone with it."""
        self._begun = False
        self._told_full = False

    def begin(self) -> None:
        """Follow each fact from here on."""
        self._begun = True

    def follow(self, fact: Fact) -> None:
        """A fact was recorded: have the files say the same."""
        if not self._begun:
            return
        refused = self.files.refused
        if refused is not None and not self._told_full:
            sentence = f"files of queues wait for room on the disk: {refused}"
            self._notices.add(NoticeKind.QUEUE_FILES_WAIT, FOLDER, sentence)
        self._told_full = refused is not None
        match fact:
            case Committed():
                # Most facts, and nothing that the files say.
                pass
            case QueueCreated(number):
                self.write(self._queues.numbered(number))
            case QuotaSet(number) | QueueOptionsSet(number) if number:
                queue = self._queues.numbered(number)
                self.write(queue)
                if queue.journal is not None:
                    self.write(queue.journal)
            case QueueDeleted(number):
                self._remove(number)
            case _:
                pass

    def remember(self, queue: StoredQueue) -> str:
        """The name of the file of a queue; from here on it is known."""
        known = self.names.get(queue.number)
        if known is not None:
            return known
        if queue.parent is not None:
            self._parts.setdefault(queue.parent.number, []).append(queue.number)
        name = self.names[queue.number] = file_name(queue.number, path_in_file(queue))
        return name

    def write(self, queue: StoredQueue) -> None:
        """Write the file of a queue with the next sync."""
        self.files.write(self.remember(queue), describe_in_file(queue))

    def _remove(self, number: int) -> None:
        name = self.names.pop(number, None)
        if name is not None:
            self.files.remove(name)
        for part in self._parts.pop(number, ()):
            self._remove(part)
