"""Folders through queues: each version of a file is sent once, and received once.

`send` sends the files that a folder has now; `watch` goes on and sends every file that appears, for
months. Both keep a ledger of what they have sent, so the same call again sends only what is new or
changed, whatever ended the last one (`docs/explanation/folders.md`). `receive` makes files of large
messages, below one folder or in a store (`docs/explanation/received-files.md`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NamedTuple

from dray.client.awaited.deliveries import Arrival
from dray.client.awaited.large import LargeMessageQueue as AwaitedLargeMessageQueue
from dray.client.awaited.manager import Manager
from dray.client.blocking.large import LargeMessageQueue
from dray.client.blocking.queue import Queue
from dray.client.calls.messages import acknowledges_to_nobody
from dray.client.calls.public_calls import checked
from dray.client.connections.threads import run
from dray.errors import DeliveryRefused, InvalidArgument, InvalidConfiguration, SourceChanged
from dray.folders.arrivals import ACKNOWLEDGE, FolderArrivals
from dray.folders.clearing import Clearing
from dray.folders.file_receiver import FileNotReceived, FileReceived
from dray.folders.fsspec import is_url
from dray.folders.ledger import FolderLedger
from dray.folders.manifest import MANIFEST_NAME, FileDifference, verify
from dray.folders.patterns import Patterns
from dray.folders.receiving import Received, receive
from dray.folders.sending import Asking, Destination, FileSent, FolderSender, InDoubtFiles, Tell
from dray.folders.store_tree import StoreTree
from dray.folders.tree import FoundFile, LeftOut, Selection, SourceTree, Tree
from dray.folders.waiting import waited_for
from dray.folders.watching import FolderWatch, Pace, ToldOnce
from dray.model.classes import Acknowledge
from dray.model.files import FileProperties
from dray.model.platforms import is_linux

__all__ = [
    "FileDifference",
    "FileNotReceived",
    "FileReceived",
    "FileSent",
    "FoundFile",
    "LeftOut",
    "Received",
    "Sent",
    "files_of",
    "receive",
    "send",
    "verify",
    "watch",
]

Changed = Literal["send", "skip"]
_WALKED_AT_ONCE = 1_000
_POLL_S_MIN = 0.1
"""A folder without anything to settle is still not walked all the time."""


class Sent(NamedTuple):
    """The number of files and bytes that a call of `send` or `watch` has sent."""

    files: int
    bytes: int


@checked
def files_of(
    directory: str | os.PathLike[str],
    *,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    hidden: bool = False,
    follow_links: bool = False,
    state: str | os.PathLike[str] | None = None,
    changed: Changed = "send",
    queue: Queue | LargeMessageQueue | None = None,
) -> list[FoundFile | LeftOut]:
    """Return the files that `send` would look at, and the names that it would leave out.

    With `state` and `queue` the files that `send` to this queue would send: the ledger says which
    ones were sent. Nothing is changed.
    """
    selection = _selection(include, exclude, hidden=hidden, follow_links=follow_links, state=state)
    found = list(_tree(directory, selection, "keep").walk())
    if state is None or queue is None or not FolderLedger.is_in(Path(state)):
        return found
    with _ledger(Path(state), _destination(queue)) as ledger:
        files = [each for each in found if isinstance(each, FoundFile)]
        new = set(ledger.not_sent(files, changed=changed == "send"))
    return [each for each in found if isinstance(each, LeftOut) or each in new]


@checked
def send(
    directory: str | os.PathLike[str],
    queue: Queue | LargeMessageQueue,
    *,
    state: str | os.PathLike[str] | None = None,
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    hidden: bool = False,
    follow_links: bool = False,
    changed: Changed = "send",
    after: str = "keep",
    batch: int | None = 1,
    in_doubt: InDoubtFiles | None = None,
    acknowledge: Acknowledge = Acknowledge.NONE,
    administration_queue: str | None = None,
    timeout: float | None = None,
    manifest: bool = False,
    tell: Tell | None = None,
) -> Sent:
    """Send every file below `directory`, each as a large message that carries its `file`.

    `directory` may be the URL of a store that fsspec knows.

    `state` is a directory for the ledger of what was sent; without it nothing is remembered.
    `include` and `exclude` are patterns with rclone's meaning. `batch` is the number of files in
    one transaction, None for all of them. `after` is what becomes of a file once it is sent:
    "keep", "delete" or "move:DIR". With `acknowledge` and an `administration_queue` the call waits
    until the destination has accepted each file (`FULL_REACH_QUEUE`) or a receiver has committed it
    (`FULL_RECEIVE`), at most `timeout` seconds; files are deleted or moved only then. With
    `manifest` the last message lists the files of this run, for `verify`. `tell` is
    called with a `FileSent` or a `LeftOut`. Raises `InvalidConfiguration`, `StoreLocked` if another
    process uses the ledger, `InDoubt` if the queue manager has forgotten the outcome of an earlier
    run, `DeliveryRefused`, `DeliveryTimeout`, and errors of the queue manager.
    """
    selection = _selection(
        include, exclude, hidden=hidden, follow_links=follow_links, state=state, after=after
    )
    told = ToldOnce(tell or (lambda _: None))
    if acknowledge and administration_queue is None:
        raise acknowledges_to_nobody()
    asking = Asking(acknowledge, administration_queue) if administration_queue else None
    tree = _tree(directory, selection, after)
    with TemporaryDirectory(prefix="dray-") as throwaway:
        to = _destination(queue)
        listed = Path(throwaway, MANIFEST_NAME)
        with _ledger(Path(state or throwaway), to) as ledger, listed.open("wb") as lines:
            sender = FolderSender(
                tree,
                to,
                ledger,
                files_per_transaction=batch,
                changed=changed == "send",
                clearing=_clearing(Path(directory), after),
                asking=asking,
                manifest=lines if manifest else None,
                tell=told,
            )
            doubt = sender.recover(in_doubt)
            if doubt is not None:
                raise doubt
            _send_all(tree, sender, told, whole=batch is None)
            if manifest and sender.count:
                lines.close()
                _send_manifest(sender, listed)
            if asking is not None:
                _wait_for(sender, to, asking, timeout)
            return Sent(sender.count, sender.bytes)


@checked
def watch(
    directory: str | os.PathLike[str],
    queue: Queue | LargeMessageQueue,
    *,
    state: str | os.PathLike[str],
    include: Iterable[str] = (),
    exclude: Iterable[str] = (),
    hidden: bool = False,
    follow_links: bool = False,
    changed: Changed = "send",
    settle: float = 2.0,
    poll: float | None = None,
    ready_suffix: str = "",
    after: str = "keep",
    batch: int = 1,
    in_doubt: InDoubtFiles | None = None,
    wait: Arrival | None = None,
    stop: threading.Event | None = None,
    tell: Tell | None = None,
) -> Sent:
    """Send each version of each file below `directory` once, until `stop` is set.

    A file is sent when its writer closes it or renames it into place. A file that is there at the
    start is sent when it has not changed for `settle` seconds. With `poll` the folder is looked at
    every so many seconds instead, and every file has to settle: use it where the kernel does not
    tell of changes, as on network file systems. With `ready_suffix=".done"` a file is sent when
    `NAME.done` appears. With `wait` a file is deleted or moved only once its destination has
    accepted it ("accepted") or a receiver has committed it ("received"); one that is refused stays.
    The call goes on by itself when the queue manager is away or full. The other arguments are those
    of `send`.
    """
    _check_wait(wait, after)
    # The kernel does not tell of changes behind links, and only Linux tells of closed files.
    pace = _pace(settle, poll, walked=follow_links or not is_linux())
    root = _folder(directory)
    selection = _selection(
        include,
        exclude,
        hidden=hidden,
        follow_links=follow_links,
        state=state,
        after=after,
        ready_suffix=ready_suffix,
    )
    told = ToldOnce(tell or (lambda _: None))
    stop = stop or threading.Event()
    tree = Tree(root, selection)
    to = _destination(queue)
    ledger = waited_for(lambda: _ledger(Path(state), to), stop)
    if ledger is None:
        return Sent(0, 0)
    with ledger:
        asking = Asking(ACKNOWLEDGE[wait], ledger.arrivals) if wait else None
        sender = FolderSender(
            tree,
            to,
            ledger,
            files_per_transaction=batch,
            changed=changed == "send",
            clearing=_clearing(root, after, ready_suffix),
            asking=asking,
            arrivals=FolderArrivals(to.link, ledger, wait) if wait else None,
            stop=stop,
            tell=told,
        )
        watcher = FolderWatch(tree, sender, pace=pace, stop=stop, tell=told)
        watcher.run(in_doubt=in_doubt)
        return Sent(sender.count, sender.bytes)


def _pace(settle: float, poll: float | None, *, walked: bool) -> Pace:
    """The times that a watcher waits."""
    if poll is None:
        return Pace(settle, max(settle, _POLL_S_MIN) if walked else None)
    return Pace(settle, poll)


def _check_wait(wait: str | None, after: str) -> None:
    if wait is not None and after == "keep":
        raise InvalidArgument("wait is for after='delete' or after='move:DIR'", argument="wait")


def _send_all(tree: SourceTree, sender: FolderSender, tell: Tell, *, whole: bool) -> None:
    found: list[FoundFile] = []
    for each in tree.walk():
        if isinstance(each, FoundFile):
            found.append(each)
        elif each.error is not None and whole:
            raise each.error
        else:
            tell(each)
        if len(found) == _WALKED_AT_ONCE and not whole:
            _send_portion(sender, found, tell)
            found = []
    _send_portion(sender, found, tell)


def _send_portion(sender: FolderSender, found: list[FoundFile], tell: Tell) -> None:
    for path in sender.send(found):
        why = "it changed while it was sent; send the folder again"
        tell(LeftOut(path, why, SourceChanged(f"{path} is left out: {why}", path=path)))


def _send_manifest(sender: FolderSender, listed: Path) -> None:
    now = datetime.now(UTC)
    name = f"{MANIFEST_NAME}-{now:%Y%m%dT%H%M%S.%fZ}.jsonl"
    mtime_ns = int(now.timestamp() * 1_000_000) * 1_000
    sender.send_file(listed, FileProperties(name, listed.stat().st_size, mtime_ns))


def _wait_for(sender: FolderSender, to: Destination, asking: Asking, timeout: float | None) -> None:
    """Wait until the files have arrived; then those that are to go may go."""
    until: Arrival = "received" if asking.acknowledge & Acknowledge.POSITIVE_RECEIVE else "accepted"
    paths = {str(each.id): each.file.path for each in sender.awaited}
    manager = Manager(to.link)
    try:
        run(
            manager.wait_for_delivery(
                list(paths), asking.administration_queue, until=until, timeout=timeout
            )
        )
    except DeliveryRefused as error:
        raise DeliveryRefused(f"{paths[error.id]}: {error}", **error.fields) from error
    sender.arrived()


def _tree(directory: str | os.PathLike[str], selection: Selection, after: str) -> SourceTree:
    if not is_url(directory):
        return Tree(_folder(directory), selection)
    if after != "keep":
        raise InvalidConfiguration(
            "nothing is removed from a store that is sent; leave `after` at 'keep'"
        )
    return StoreTree(str(directory), selection)


def _folder(directory: str | os.PathLike[str]) -> Path:
    root = Path(directory)
    if not root.is_dir():
        raise InvalidConfiguration(f"{root} is not a directory; name a directory to send from")
    return root


def _selection(
    include: Iterable[str],
    exclude: Iterable[str],
    *,
    hidden: bool,
    follow_links: bool,
    state: str | os.PathLike[str] | None,
    after: str = "keep",
    ready_suffix: str = "",
) -> Selection:
    into = _moved_to(after)
    own = [Path(each).resolve() for each in (state, into) if each is not None]
    return Selection(
        Patterns(include, exclude),
        hidden=hidden,
        follow_links=follow_links,
        ready_suffix=ready_suffix,
        not_below=tuple(own),
    )


def _moved_to(after: str) -> Path | None:
    kind, _, into = after.partition(":")
    if (kind in {"keep", "delete"} and not into) or (kind == "move" and into):
        return Path(into) if into else None
    raise InvalidArgument(
        f"after is 'keep', 'delete' or 'move:DIR', not {after!r}", argument="after"
    )


def _clearing(root: Path, after: str, ready_suffix: str = "") -> Clearing | None:
    if after == "keep":
        return None
    return Clearing(root, _moved_to(after), ready_suffix=ready_suffix)


def _destination(queue: Queue | LargeMessageQueue) -> Destination:
    if isinstance(queue, LargeMessageQueue):
        large = queue.awaited
    else:
        large = AwaitedLargeMessageQueue(queue.awaited)
    return Destination(large, large.handle.link, large.handle.name)


def _ledger(folder: Path, to: Destination) -> FolderLedger:
    manager_id = run(Manager(to.link).info()).id
    return FolderLedger(folder, manager_id=manager_id, queue=to.name)
