r"""The files of queues and the state: at start one is made to fit the other, later they follow it.

A start decides file by file. The state of the manager is the truth; people may change four
properties of a queue of theirs while the manager is stopped, and nothing else.

    file        signed   says                        then
    missing     -        -                           written anew; refused for an internal queue
    a folder    -        -                           refused: it is to be moved away
    unreadable  -        -                           to quarantine, written anew
    as it is    any      what the state says         nothing (signed again if it was not)
    different   yes      something older             written anew: a crash came before it was
    different   no       other editable properties   taken over into the state
    different   no       any other difference        to quarantine, written anew
    there       any      no queue has that name      to quarantine

Nothing is purged because of a file, and no byte of one is lost. A store that has never written its
files, because it is new or a crash ended its first start, writes them all; the fact
`QueueFilesKept` says that this is done, and from then on an internal queue's missing file is damage
(S3-16): event 2020, 2051 or 2052.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dray.errors import StoreCorrupt, StoreError
from dray.large.digests import DIGESTS
from dray.manager.change.names import journal_of
from dray.manager.context import Context
from dray.manager.disk import FollowedFiles, describe_in_file
from dray.manager.facts import QueueFilesKept, QueueOptionsSet
from dray.manager.notices import NoticeKind
from dray.manager.queue import ADMIN_QUEUE, NOTIFY_QUEUE, ORDER_QUEUE, StoredQueue
from dray.model.classes import QueueKind
from dray.model.queue import QueueOptions
from dray.store.lqs import FOLDER, Description, Found, NotAFileOfOursError, decode, encode

LQS_EVENTS: Final = {ADMIN_QUEUE: 2020, NOTIFY_QUEUE: 2051, ORDER_QUEUE: 2052}
_FIXED: Final = {
    "path": "QueueName",
    "kind": "Type",
    "transactional": "Transaction",
    "system": "SystemQueue",
}
LQS_EDITABLE: Final = {
    "label": "Label",
    "quota": "Quota",
    "journal_quota": "JQuota",
    "journal": "Journal",
    "digest": "Digest",
}


class FilesReport(msgspec.Struct):
    """Changes of a start to the files, by their names."""

    missing: list[str] = []
    outdated: list[str] = []
    taken_over: list[str] = []
    quarantined: list[str] = []


class FileKeeper:
    """Keeps the files of one manager's queues."""

    def __init__(self, context: Context, followed: FollowedFiles) -> None:
        """Look after the files of `followed`."""
        self._context = context
        self._followed = followed
        self._files = followed.files
        self._names = followed.names
        self.report = FilesReport()

    def begin(self, *, rebuild_internal: bool = False) -> None:
        """Make files and state fit each other. Raises StoreCorrupt with event 2020, 2051 or 2052.

        With `rebuild_internal` the files of internal queues may be missing like any other.
        """
        for queue in self._context.state.queues:
            self._followed.remember(queue)
        if self._context.state.queue_files_kept:
            self._reconcile(rebuild_internal=rebuild_internal)
        else:
            self._give_birth()
        self._followed.begin()

    def _give_birth(self) -> None:
        names = set(self._files.names())
        self._check_places(names)
        self._move_strays(names)
        for queue in self._context.state.queues:
            self._followed.write(queue)
        self._files.flush(self._files.captured)
        if self._files.refused is not None:
            raise self._files.refused
        self._context.record(QueueFilesKept())

    def _reconcile(self, *, rebuild_internal: bool) -> None:
        names = set(self._files.names())
        self._check_places(names)
        if not rebuild_internal:
            self._check_internal(names)
        self._move_strays(names)
        edited = [
            (queue, found.description)
            for queue in self._context.state.queues
            if (found := self._examine(queue, names)) is not None
        ]
        # A change without a fact is written now; one with a fact follows it into the log's sync.
        self._files.flush(self._files.captured)
        self._followed.begin()
        for queue, description in edited:
            self._take_over(queue, description)

    def _check_places(self, names: set[str]) -> None:
        for queue in self._context.state.queues:
            name = self._names[queue.number]
            if name not in names and self._files.is_taken(name):
                raise StoreError(
                    f"{FOLDER}/{name} is a folder or the like in the place of the file of queue"
                    f" {queue.name!r}; move it out of the data directory and start again",
                    file=f"{FOLDER}/{name}",
                )

    def _check_internal(self, names: set[str]) -> None:
        for number, event in LQS_EVENTS.items():
            name = self._names[number]
            if name not in names:
                queue = self._context.state.queues.numbered(number).name
                raise StoreCorrupt(
                    f"event {event}: {FOLDER}/{name} is missing; it describes the internal queue"
                    f" {queue!r}; put it back from a copy, or run `dray storage rebuild`, and find"
                    " out in audit.jsonl what else was deleted",
                    event=event,
                    file=f"{FOLDER}/{name}",
                )

    def _move_strays(self, names: set[str]) -> None:
        for name in sorted(names.difference(self._names.values())):
            apart = self._files.quarantine(name)
            self.report.quarantined.append(name)
            self._tell(name, f"no queue has this file; it was moved to {apart}")

    def _examine(self, queue: StoredQueue, names: set[str]) -> Found | None:
        """Mend the file of a queue; give it if what people wrote there is to be taken over."""
        name, expected = self._names[queue.number], describe_in_file(queue)
        if name not in names:
            self.report.missing.append(name)
            self._tell(name, f"the file of queue {queue.name!r} was missing and was written anew")
            self._files.write(name, expected)
            return None
        try:
            image = self._files.image(name)
            if image == encode(expected):
                # Nearly always, and much faster than taking the text apart.
                return None
            found = decode(image)
            changed = changed_in_file(found.description, queue)
            if not found.signed:
                check_editable(queue, changed, found.description)
        except NotAFileOfOursError as error:
            self._replace(queue, name, str(error))
            return None
        if changed and not found.signed:
            return found
        if changed:
            self.report.outdated.append(name)
            self._tell(name, f"the file was older than queue {queue.name!r}; it was written anew")
        if changed or not found.signed:
            self._files.write(name, expected)
        return None

    def _replace(self, queue: StoredQueue, name: str, why: str) -> None:
        apart = self._files.replace_damaged(name, describe_in_file(queue))
        self.report.quarantined.append(name)
        self._tell(
            name, f"{why}; the file of queue {queue.name!r} was moved to {apart} and written anew"
        )

    def _take_over(self, queue: StoredQueue, wanted: Description) -> None:
        changed = changed_in_file(wanted, queue)
        own = queue.options
        options = QueueOptions(
            transactional=own.transactional,
            quota=wanted.quota,
            journal=wanted.journal,
            journal_quota=wanted.journal_quota,
            label=wanted.label,
            digest=wanted.digest,
        )
        self._context.record(QueueOptionsSet(queue.number, options))
        if options.journal and queue.journal is None:
            journal_of(self._context, queue)
        name = self._names[queue.number]
        self.report.taken_over.append(name)
        told = ", ".join(
            f"{LQS_EDITABLE[field]} to {getattr(wanted, field)!r}" for field in changed
        )
        self._tell(name, f"the edited file set of queue {queue.name!r}: {told}")

    def _tell(self, name: str, sentence: str) -> None:
        self._context.notices.add(NoticeKind.QUEUE_FILE, f"{FOLDER}/{name}", sentence)


def changed_in_file(found: Description, queue: StoredQueue) -> list[str]:
    """The properties of a queue for which its file and the state differ."""
    # A file cannot say with what spaces a name begins or ends.
    expected = describe_in_file(queue)
    expected = expected._replace(path=expected.path.strip())
    return [
        field for field in Description._fields if getattr(found, field) != getattr(expected, field)
    ]


def check_editable(queue: StoredQueue, changed: list[str], wanted: Description) -> None:
    """Raise NotAFileOfOursError if people may not change one of these properties, or not so."""
    for field in changed:
        if field in _FIXED:
            raise NotAFileOfOursError(f"its {_FIXED[field]} was changed, but nobody may change it")
        if queue.kind is not QueueKind.PRIVATE:
            raise NotAFileOfOursError(
                f"its {LQS_EDITABLE[field]} was changed, but only queues of users let you change it"
            )
    if wanted.digest is not None and wanted.digest not in DIGESTS:
        raise NotAFileOfOursError(f"its Digest is {wanted.digest!r}, and no digest has that name")
