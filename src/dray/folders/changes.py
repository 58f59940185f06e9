"""The kernel tells of changes in a folder: files that are finished, folders that are new.

A file is finished when a program that wrote to it closes it, or when it gets its name in the folder
by a rename. Any other sign of a file, such as a new hard link, only makes somebody look at it. The
kernel drops events when too many come at once, so after a burst the whole folder is walked.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from watchdog import events
from watchdog.observers.inotify import InotifyObserver

from dray.errors import InvalidConfiguration

KEPT_MAX: Final = 100_000
"""Paths kept for a reader that is slow; beyond that only the folder is noted, to be walked."""
BURST: Final = 4_000
"""Events between two looks that make it likely that the kernel dropped some; it keeps 16,384."""
_DESCRIPTORS: Final = Path("/proc/self/fdinfo")
_EVENTS: Final[list[type[events.FileSystemEvent]]] = [
    events.FileClosedEvent,
    events.FileMovedEvent,
    events.FileCreatedEvent,
    events.DirCreatedEvent,
    events.DirMovedEvent,
]


_ENDED: Final = "InotifyEmitter.queue_events() called when the thread is inactive"
"""The library calls it an error that a change came while it was told to stop; it is none."""


def is_no_end(record: logging.LogRecord) -> bool:
    """Whether the library says anything but that it was stopped while a change came."""
    return record.msg != _ENDED


logging.getLogger(InotifyObserver.__module__).addFilter(is_no_end)


class Changes(NamedTuple):
    """Paths that changed since the last time."""

    finished: list[str]
    """Relative paths of files that were closed after writing or renamed into place."""
    seen: list[str]
    """Relative paths of files to look at, which somebody may still write to."""
    folders: list[str]
    """Relative paths of folders to walk; "" for the whole folder."""


class FolderObserver:
    """Watches a folder with all its folders; `start` and `stop` it."""

    def __init__(self, root: Path, changed: threading.Event) -> None:
        """Set `changed` whenever there is something to take."""
        # The kernel would watch a link, and not the folder that it leads to.
        self._root = root.resolve()
        self._changed = changed
        self._lock = threading.Lock()
        self._finished: dict[str, None] = {}
        self._seen: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._events = 0
        self.unwatched = 0
        """Folders that the kernel did not watch at the start, because it had reached its limit."""
        # With full events a file that is moved in from elsewhere is told as moved, not as created.
        self._observer = InotifyObserver(generate_full_events=True)

    def start(self) -> None:
        """Begin to watch; raises `InvalidConfiguration` if the kernel cannot."""
        handler = _EventHandler(self)
        others = _watches()
        try:
            self._observer.schedule(handler, str(self._root), recursive=True, event_filter=_EVENTS)
            self._observer.start()
        except OSError as error:
            raise InvalidConfiguration(
                f"{self._root} cannot be watched: {error.strerror or error}; look at the folder"
                " every few seconds instead (--poll 5), or raise fs.inotify.max_user_watches"
            ) from error
        # Nobody is told when the kernel begins to leave folders out.
        folders = sum(1 for _ in os.walk(self._root))
        self.unwatched = max(0, folders - (_watches() - others))

    def stop(self) -> None:
        """End watching."""
        self._observer.stop()
        self._observer.join()

    def take(self) -> Changes:
        """Everything since the last call; empty lists if nothing happened."""
        with self._lock:
            if self._events > BURST:
                self._folders[""] = None
            found = Changes(list(self._finished), list(self._seen), list(self._folders))
            self._finished, self._seen, self._folders, self._events = {}, {}, {}, 0
        return found

    def note(self, event: events.FileSystemEvent) -> None:
        """Take in an event of the kernel."""
        moved = isinstance(event, (events.FileMovedEvent, events.DirMovedEvent))
        target = os.fsdecode(event.dest_path if moved else event.src_path)
        if not target:
            # It was moved away.
            return
        path = os.path.relpath(target, self._root)
        if path == os.pardir or path.startswith("../"):
            return
        with self._lock:
            self._events += 1
            if event.is_directory:
                self._folders["" if path == os.curdir else path] = None
            elif isinstance(event, (events.FileClosedEvent, events.FileMovedEvent)):
                self._finished[path] = None
            else:
                self._seen[path] = None
            if len(self._finished) + len(self._seen) > KEPT_MAX:
                self._finished, self._seen, self._folders = {}, {}, {"": None}
        self._changed.set()


def _watches() -> int:
    """The number of folders that the kernel watches for this process."""
    count = 0
    for each in _DESCRIPTORS.iterdir():
        # Another thread may have closed it just now.
        with suppress(OSError):
            count += each.read_text().count("inotify wd:")
    return count


class _EventHandler(events.FileSystemEventHandler):
    def __init__(self, observer: FolderObserver) -> None:
        self._observer = observer

    def on_any_event(self, event: events.FileSystemEvent) -> None:
        if type(event) in _EVENTS:
            self._observer.note(event)
