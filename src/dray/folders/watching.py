"""Watches a folder and sends each new version of a file once, until it is told to stop.

Theory of operation. The kernel tells of finished files, which are sent at once. A walk finds all
others: at the start, in folders that are new, after a burst of events, and every few minutes, for
the kernel may drop events. Nothing tells whether a writer still holds a file that a walk finds, so
such a file waits until it has kept its size, time and inode for `settle` seconds. The walk goes on
a portion at a time, between the files that the kernel tells of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.errors import DrayError, InDoubt
from dray.folders.open_files import is_open_for_writing
from dray.folders.sending import FileSent, FolderSender, InDoubtFiles, Tell
from dray.folders.tree import FoundFile, LeftOut, Tree
from dray.folders.waiting import BACKOFF_S

if TYPE_CHECKING:
    from dray.folders.changes import FolderObserver

_log = logging.getLogger(__name__)

WALK_AGAIN_S: Final = 300.0
"""The interval of walks through the whole folder although the kernel tells of changes."""
_PORTION: Final = 1_000
"""Files of a walk between two looks at what the kernel tells."""
_SETTLING_MAX: Final = 20_000
"""Files that wait until they have settled; the walk stops while there are so many."""
_LISTEN_S: Final = 0.5
"""The longest time until somebody who sets `stop` is heard."""


@dataclass(frozen=True)
class Pace:
    """The times that a watcher waits."""

    settle_s: float = 2.0
    """The time for which a file that a walk found is unchanged before it is sent."""
    poll_s: float | None = None
    """Walk the folder this often, and do not ask the kernel; for network file systems."""


class ToldOnce:
    """Tells once of a name that is left out for the same reason, until its file is sent."""

    def __init__(self, tell: Tell) -> None:
        """Tell through `tell`."""
        self._tell = tell
        self._reasons: dict[str, str] = {}

    def __call__(self, told: FileSent | LeftOut) -> None:
        """Tell of a file, or of a name of which this was not told before."""
        if isinstance(told, LeftOut):
            if self._reasons.get(told.path) == told.reason:
                return
            self._reasons[told.path] = told.reason
        else:
            self._reasons.pop(told.file.path, None)
        self._tell(told)


class FolderWatch:
    """One watch of one folder."""

    def __init__(
        self,
        tree: Tree,
        sender: FolderSender,
        *,
        pace: Pace,
        stop: threading.Event,
        tell: Tell,
    ) -> None:
        """Send through `sender` until `stop` is set; `tell` hears of names that are left out.

        It hears of them at each look, so give it a `ToldOnce`.
        """
        self._tree = tree
        self._sender = sender
        self._pace = pace
        self._suffix = tree.selection.ready_suffix
        self._stop = stop
        self._tell = tell
        self._changed = threading.Event()
        self._observer = None if pace.poll_s else _observer(tree, self._changed)
        self._ready: dict[str, None] = {}
        self._settling: dict[str, tuple[FoundFile, float]] = {}
        self._walks: dict[str, Iterator[FoundFile | LeftOut]] = {}
        self._next_walk = 0.0
        self._folder = tree.identity()
        """The folder that is watched; None while there is none."""

    def run(self, *, in_doubt: InDoubtFiles | None = None) -> None:
        """Watch until told to stop; raises errors that waiting does not mend."""
        self._observe()
        try:
            self._patiently(lambda: self._sender.recover(in_doubt))
            while not self._stop.is_set():
                self._look_at_folder()
                self._take_changes()
                self._walk_on()
                self._settle()
                self._patiently(self._sender.take_arrivals)
                if self._ready:
                    self._patiently(self._send_ready)
                else:
                    self._wait()
        finally:
            if self._observer is not None:
                self._observer.stop()

    def _observe(self) -> None:
        """Begin to listen to the kernel, and say if it does not watch all folders."""
        if self._observer is None:
            return
        self._observer.start()
        if self._observer.unwatched:
            _log.warning(
                "the kernel watches all folders below %s but %d, where new files are found every %d"
                " s; raise fs.inotify.max_user_watches, or look more often with --poll",
                self._tree.root,
                self._observer.unwatched,
                WALK_AGAIN_S,
            )

    def _look_at_folder(self) -> None:
        """Watch anew if the folder is another one; the kernel tells nothing of that."""
        now = self._tree.identity()
        if now == self._folder:
            return
        self._folder = now
        if now is None:
            _log.warning(
                "%s is not there; its files are sent once it is there again", self._tree.root
            )
            return
        if self._observer is not None:
            self._observer.stop()
            self._observer = _observer(self._tree, self._changed)
            self._observe()
        self._walks, self._next_walk = {}, 0.0
        _log.warning("%s is another folder than before and is watched anew", self._tree.root)

    def _take_changes(self) -> None:
        self._changed.clear()
        if self._observer is None:
            return
        finished, seen, folders = self._observer.take()
        for path in finished if not self._suffix else ():
            self._settling.pop(path, None)
            self._ready[path] = None
        if self._suffix:
            for path in (*finished, *seen):
                if path.endswith(self._suffix):
                    self._ready[path.removesuffix(self._suffix)] = None
        else:
            self._look(seen)
        for folder in folders:
            self._walks[folder] = self._tree.walk(folder)

    def _look(self, paths: list[str]) -> None:
        for path in paths:
            if path not in self._ready:
                self._found(self._tree.look_at(path))

    def _walk_on(self) -> None:
        """Go on with one walk, and begin the next one when it is due."""
        now = time.monotonic()
        if now >= self._next_walk and "" not in self._walks:
            self._walks[""] = self._tree.walk()
            self._next_walk = now + (self._pace.poll_s or WALK_AGAIN_S)
        for folder, walk in list(self._walks.items())[:1]:
            if len(self._settling) >= _SETTLING_MAX:
                return
            found: list[FoundFile] = []
            for each in walk:
                if isinstance(each, LeftOut):
                    self._found(each)
                else:
                    found.append(each)
                if len(found) == _PORTION:
                    break
            else:
                del self._walks[folder]
            for each in self._sender.not_sent(found):
                self._found(each)

    def _found(self, found: FoundFile | LeftOut | None) -> None:
        if isinstance(found, LeftOut):
            self._tell(found)
        elif found is not None and self._suffix:
            self._ready[found.path] = None
        elif found is not None and found.path not in self._ready:
            before = self._settling.get(found.path)
            if before is None or before[0].version != found.version:
                # The newest look stands last, so that a file that grows holds no other back.
                self._settling.pop(found.path, None)
                self._settling[found.path] = found, time.monotonic()

    def _settle(self) -> None:
        """Take the files that have kept still for long enough; the oldest look stands first."""
        until = time.monotonic() - self._pace.settle_s
        due = []
        for path, (_, since) in self._settling.items():
            if since > until:
                break
            due.append(path)
        for path in due:
            before, _ = self._settling.pop(path)
            found = self._tree.look_at(path)
            if isinstance(found, FoundFile) and self._waits_for_writer(found):
                continue
            if isinstance(found, FoundFile) and found.version == before.version:
                self._ready[path] = None
            else:
                self._found(found)

    def _waits_for_writer(self, found: FoundFile) -> bool:
        """Whether a file waits again, because a program has it open for writing."""
        if not is_open_for_writing(self._tree.root / found.path):
            return False
        # A writer that pauses has not finished; nothing tells when it does.
        self._settling.pop(found.path, None)
        self._settling[found.path] = found, time.monotonic() + _LISTEN_S
        return True

    def _send_ready(self) -> None:
        """Send a portion of the files that are ready; they stay ready if that fails."""
        paths = list(self._ready)[:_PORTION]
        looked = [self._tree.look_at(path) for path in paths]
        found = [each for each in looked if isinstance(each, FoundFile)]
        # One program may have closed a file that another one has opened.
        again = self._sender.send([each for each in found if not self._waits_for_writer(each)])
        for path, each in zip(paths, looked, strict=True):
            del self._ready[path]
            if isinstance(each, LeftOut):
                self._found(each)
        self._look(again)

    def _wait(self) -> None:
        """Wait for a change, the next file that has settled, or the next walk."""
        if self._walks and len(self._settling) < _SETTLING_MAX:
            return
        now = time.monotonic()
        due = [self._next_walk]
        if self._settling:
            _, since = next(iter(self._settling.values()))
            due.append(since + self._pace.settle_s)
        self._changed.wait(min(_LISTEN_S, max(0.0, min(due) - now)))

    def _patiently(self, action: Callable[[], InDoubt | None]) -> None:
        """Act, again and again while the queue manager is away or full; one line for each time.

        Raises errors that waiting does not mend, and the doubt that the action gives.
        """
        pause, told, doubt = BACKOFF_S[0], False, None
        while doubt is None:
            try:
                doubt = self._sender.recover() if told else None
                if doubt is None:
                    doubt = action()
                    break
            except DrayError as error:
                if not error.retryable and not isinstance(error, InDoubt):
                    raise
                if not told:
                    _log.warning("sending has stopped and goes on by itself: %s", error)
                    told = True
                if self._stop.wait(pause):
                    return
                pause = min(2 * pause, BACKOFF_S[1])
        if doubt is not None:
            raise doubt
        if told:
            _log.warning("sending goes on")


def _observer(tree: Tree, changed: threading.Event) -> FolderObserver:
    from dray.folders.changes import FolderObserver  # noqa: PLC0415 - only Linux has what it needs

    return FolderObserver(tree.root, changed)
