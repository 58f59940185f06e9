"""`receive`: the large messages of a queue become files, each once, for as long as one likes."""

from __future__ import annotations

import os
import shlex
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from dray.client.awaited.batch_receiver import BatchReceiver
from dray.client.awaited.manager import Manager
from dray.client.awaited.receiver import Then
from dray.client.blocking.large import LargeMessageQueue
from dray.client.blocking.large_message import LargeMessage
from dray.client.blocking.queue import Queue
from dray.client.calls.public_calls import checked
from dray.client.connections.threads import run
from dray.errors import ConnectionLost, InvalidArgument, InvalidConfiguration, ReceiveTimeout
from dray.folders.file_receiver import FileReceiver, PlacedBody, Placing, PlacingSome, Tell
from dray.folders.flat_target import FlatTarget
from dray.folders.fsspec import is_url
from dray.folders.placing import TargetFolder
from dray.folders.store_target import StoreTarget
from dray.folders.tree_target import OnConflict, RestoredFile, TreeTarget
from dray.folders.waiting import waited_for
from dray.model.classes import TransactionStatus
from dray.model.limits import LARGE_TAKEN_MAX

_OPEN_AT_ONCE: Final = 512
"""Files that all workers hold open at a time; a process may have 1,024 as a rule."""


class Received(NamedTuple):
    """The number of files and bytes that one `receive` has received, and of failed messages."""

    files: int
    bytes: int
    failed: int


@checked
def receive(
    queue: Queue | LargeMessageQueue,
    target: str | os.PathLike[str],
    *,
    tree: bool = True,
    preserve: bool = True,
    on_conflict: OnConflict = "number",
    follow: bool = True,
    command: str | Sequence[str] | None = None,
    retries: int = 5,
    retry_delay: float = 0.0,
    then: Then = "move",
    poison: str = "poison",
    workers: int = 1,
    sync: bool = True,
    count: int | None = None,
    timeout: float | None = 0,
    stop: threading.Event | None = None,
    tell: Tell | None = None,
) -> Received:
    """Receive each large message of a queue into a file, once.

    `target` is a directory, or the URL of a store that fsspec knows. A file is restored under its
    path, and never outside of the target; without `tree` it is named after the label of its
    message. `preserve` keeps its time and mode, which a store cannot. `on_conflict` says what
    becomes of a file whose path another one has: "number", "replace", "skip" or "fail"; a newer
    version from the same source always takes the place of the older one. `command` is run for each
    file, with `{path}` for its path; the message is received if it exits with 0.

    The call receives until the event `stop` is set, `workers` messages side by side, and goes on
    through restarts of the queue manager. Without `follow` it receives `count` messages, or all
    that come within `timeout` seconds of each other; None waits for the first without a limit. A
    message that fails is tried `retries` times more and then moved to the sub-queue `poison`,
    rejected or dropped, as `then` says. `tell` is called with a `FileReceived` or a
    `FileNotReceived`. Raises `InvalidConfiguration`, `StoreLocked` if another process receives into
    the tree, and errors of the queue manager.
    """
    large = queue if isinstance(queue, LargeMessageQueue) else LargeMessageQueue(queue)
    _check(on_conflict, count, timeout, tree=tree, follow=follow)
    words = _words_of(command, target)
    stop = stop or threading.Event()
    some = tree and command is None and not is_url(target)
    receiver = BatchReceiver(
        large.awaited,
        lambda messages, _: files.handle_some(messages),
        most=_together(workers) if some else 1,
        retries=retries,
        retry_delay=retry_delay,
        then=then,
        poison=poison,
        workers=workers,
        reconnect=follow,
    )
    outcome = _Outcome(large, follows=follow)
    placed = partial(
        _placing, outcome, target, tree=tree, preserve=preserve, on_conflict=on_conflict, sync=sync
    )
    with ExitStack() as stack:
        placing = waited_for(lambda: stack.enter_context(placed()), stop if follow else None)
        if placing is None:
            return Received(0, 0, 0)
        files = FileReceiver(*placing, words, tell or (lambda _: None))
        stack.callback(files.close)
        if follow:
            run(receiver.run(files.handle, stop, report=files.report))
        else:
            _receive_some(receiver, files, stop, count=count, timeout=timeout)
        return Received(files.count, files.bytes, files.failures)


def _check(
    on_conflict: str, count: int | None, timeout: float | None, *, tree: bool, follow: bool
) -> None:
    """Raise `InvalidArgument` for values that do not go together."""
    if follow and (count is not None or timeout):
        argument = "timeout" if count is None else "count"
        raise InvalidArgument(
            f"{argument} is for a call that ends by itself; set follow=False", argument=argument
        )
    if on_conflict != "number" and not tree:
        raise InvalidArgument("on_conflict is for a tree; set tree=True", argument="on_conflict")


def _words_of(
    command: str | Sequence[str] | None, target: str | os.PathLike[str]
) -> Sequence[str] | None:
    """The words of a command; raises `InvalidArgument` for one that would fail for every file."""
    if command is None:
        return None
    if is_url(target):
        raise InvalidConfiguration(
            "no command can open an object of a store; receive without `command`"
        )
    try:
        words = shlex.split(command) if isinstance(command, str) else list(command)
    except ValueError as error:
        raise InvalidArgument(
            f"command: {command!r} cannot be read: {error}; quote it as for a shell",
            argument="command",
        ) from error
    if not words or ("{path}" not in words[0] and shutil.which(words[0]) is None):
        named = repr(words[0]) if words else "an empty text"
        raise InvalidArgument(
            f"command: {named} is no program that can be run; name one, or give its whole path",
            argument="command",
        )
    return words


def _together(workers: int) -> int:
    """The number of messages that a worker takes by one request."""
    return min(LARGE_TAKEN_MAX, max(1, _OPEN_AT_ONCE // max(1, workers)))


def _receive_some(
    receiver: BatchReceiver,
    files: FileReceiver,
    stop: threading.Event,
    *,
    count: int | None,
    timeout: float | None,
) -> None:
    done = 0
    while not stop.is_set() and (count is None or done < count):
        wait = timeout if timeout is not None or not files.count else 0
        most = LARGE_TAKEN_MAX if count is None else count - done
        try:
            run(receiver.handle_some(files.handle, files.report, wait, most))
        except ReceiveTimeout:
            return
        done = files.count + files.failures


@contextmanager
def _placing(
    outcome: _Outcome,
    target: str | os.PathLike[str],
    *,
    tree: bool,
    preserve: bool,
    on_conflict: OnConflict,
    sync: bool,
) -> Iterator[tuple[Placing, PlacingSome | None]]:
    """Open the target; give the functions that place a message in it, and several."""
    with ExitStack() as stack:
        if is_url(target):
            store = StoreTarget(str(target), tree=tree, on_conflict=on_conflict)
            with outcome.asked():
                store.clear(outcome)
            yield store.place, None
            with outcome.asked():
                store.clear(outcome)
        elif tree:
            below = TreeTarget(Path(target), preserve=preserve, on_conflict=on_conflict, sync=sync)
            stack.callback(below.close)
            yield partial(_place_below, below), partial(_place_some_below, below)
        else:
            folder = stack.enter_context(TargetFolder(str(target), sync=sync))
            with outcome.asked():
                folder.clear(outcome)
            yield FlatTarget(folder, preserve=preserve, sync=sync).place, None
            with outcome.asked():
                folder.clear(outcome)


def _place_below(target: TreeTarget, message: LargeMessage, transaction_id: str) -> PlacedBody:
    del transaction_id
    return _placed_below(target.place(message))


def _place_some_below(
    target: TreeTarget, messages: Sequence[LargeMessage]
) -> list[PlacedBody | Exception]:
    found = target.place_some(messages)
    return [each if isinstance(each, Exception) else _placed_below(each) for each in found]


def _placed_below(placed: RestoredFile) -> PlacedBody:
    return PlacedBody(str(placed.path), placed.path, lambda _: None, placed.skipped)


class _Outcome:
    """Asks the queue manager how a transaction ended."""

    def __init__(self, large: LargeMessageQueue, *, follows: bool) -> None:
        self._manager = Manager(large.awaited.handle.link)
        self._follows = follows

    def asked(self) -> AbstractContextManager[None]:
        """A block that asks; while the queue manager is away a receiver that follows goes on.

        The next one clears what this one cannot.
        """
        return suppress(ConnectionLost) if self._follows else nullcontext()

    def __call__(self, transaction_id: str) -> TransactionStatus:
        return run(self._manager.outcome(transaction_id))
