"""Sends files of a folder to a queue, each version once, whatever ends the program or the manager.

Theory of operation. A few transactions are filled, each with one file or with several. Before they
commit, the ledger notes durably which files are in which transaction. Then they commit, side by
side, and the ledger notes that they did. A later run that finds a
transaction without its outcome asks the queue manager, which calls one that has not committed
aborted, for ever.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final, Literal, NamedTuple

from dray.client.awaited.commits import commit_all
from dray.client.awaited.large import LargeMessageQueue
from dray.client.awaited.manager import Manager
from dray.client.awaited.transaction import Transaction
from dray.client.connections.link import Link
from dray.client.connections.threads import run
from dray.errors import (
    ConnectionLost,
    InDoubt,
    QuotaExceeded,
    SourceChanged,
    SourceUnreadable,
    TargetUnwritable,
    TransactionAborted,
)
from dray.folders.arrivals import FolderArrivals
from dray.folders.clearing import Clearing
from dray.folders.ledger import FolderLedger
from dray.folders.manifest import ManifestEntry, entry_of, lines_of
from dray.folders.tree import FoundFile, LeftOut, SourceTree
from dray.model.classes import Acknowledge, TransactionStatus
from dray.model.files import FileProperties
from dray.model.ids import MessageId, split_id
from dray.model.limits import LABEL_CHARACTERS_MAX, MIB
from dray.model.words import counted

TRANSACTIONS_AT_ONCE: Final = 32
"""Commits side by side share a sync of the queue manager; more than this gain nothing."""
BYTES_AT_ONCE: Final = 64 * MIB
"""Bytes staged before a commit; one file may be longer."""
_CLEAR_AGAIN_S: Final = 60.0
"""The interval of tries to remove a file: somebody has to mend the cause first."""


InDoubtFiles = Literal["sent", "send"]
"""The outcome to assume when the queue manager has forgotten a transaction."""


class FileSent(NamedTuple):
    """A file that was sent, and the id of its large message."""

    file: FoundFile
    id: MessageId


Tell = Callable[[FileSent | LeftOut], object]


class Destination(NamedTuple):
    """The queue that files go to."""

    queue: LargeMessageQueue
    link: Link
    name: str


class Asking(NamedTuple):
    """The acknowledgments that each message asks for, and the queue that they come to."""

    acknowledge: Acknowledge
    administration_queue: str


class _Filled(NamedTuple):
    """A transaction with files in it, not committed yet."""

    transaction: Transaction
    sent: list[FileSent]
    listed: list[ManifestEntry]
    """Entries of a manifest, if there is one."""


class FolderSender:
    """Sends what a walk or a watcher has found, through the ledger."""

    def __init__(
        self,
        tree: SourceTree,
        to: Destination,
        ledger: FolderLedger,
        *,
        files_per_transaction: int | None = 1,
        changed: bool = True,
        clearing: Clearing | None = None,
        asking: Asking | None = None,
        arrivals: FolderArrivals | None = None,
        manifest: BinaryIO | None = None,
        stop: threading.Event | None = None,
        tell: Tell,
    ) -> None:
        """Send from `tree`; `changed`: a file that was sent is sent again when it has changed.

        `clearing` removes files from the folder once they are sent; with `asking`, once `arrived`
        is called, or once `take_arrivals` finds in `arrivals` that they have arrived. A line for
        each file is written into `manifest`. Once `stop` is set no further file is begun. `tell` is
        called for each file.
        """
        self._tree = tree
        self._to = to
        self._ledger = ledger
        self._files_per_transaction = files_per_transaction
        self._changed = changed
        self._clearing = clearing
        self._asking = asking
        self._arrivals = arrivals
        self._manifest = manifest
        self.awaited: list[FileSent] = []
        """The files that were sent with `asking`, and whose arrival is not known yet."""
        self._stop = stop
        self._tell = tell
        self._try_again_at: float | None = 0.0
        """When to try again to remove files that could not be; those of an earlier run at once."""
        self.count = self.bytes = 0

    def not_sent(self, found: Sequence[FoundFile]) -> list[FoundFile]:
        """The files of which this version was not sent."""
        return self._ledger.not_sent(found, changed=self._changed)

    def recover(self, in_doubt: InDoubtFiles | None = None) -> InDoubt | None:
        """Settle what an earlier run has left; raises `ConnectionLost`.

        The queue manager may have forgotten an outcome; then `in_doubt` decides, and without it the
        doubt is returned.
        """
        doubt = None
        manager = Manager(self._to.link)
        for transaction_id, files in self._ledger.pending().items():
            status = run(manager.outcome(transaction_id))
            if status is TransactionStatus.UNKNOWN:
                self._ledger.check_manager(run(manager.info()).id)
                if in_doubt is None:
                    doubt = _forgotten(transaction_id, files)
                    continue
                self._settle([(transaction_id, in_doubt == "sent")])
            elif status in {TransactionStatus.COMMITTED, TransactionStatus.ABORTED}:
                self._settle([(transaction_id, status is TransactionStatus.COMMITTED)])
            else:
                raise ConnectionLost(
                    f"the queue manager has not decided transaction {transaction_id} yet; ask it"
                    " again"
                )
        if self._clearing is not None:
            self._clear(self._clearing.folders_of_hidden(self._ledger.to_clear()))
        return doubt

    def send(self, found: Sequence[FoundFile]) -> list[str]:
        """Send the files that were not sent yet; return the paths of those that changed meanwhile.

        Raises `ConnectionLost` and other errors of the queue manager. `recover` settles
        the doubts of such a call.
        """
        new = self._ledger.not_sent(found, changed=self._changed)
        again: list[str] = []
        for some in _portions(new, self._files_per_transaction):
            changed: list[str] = []
            try:
                self._send_some(some, changed)
            except QuotaExceeded as error:
                # The ledger knows those that were sent all the same.
                changed = self.send(self._without_too_long(chain(*some), error))
            again += changed
        return again

    def _send_some(self, some: Sequence[Sequence[FoundFile]], again: list[str]) -> None:
        """Fill transactions and commit them."""
        filled: list[_Filled] = []
        try:
            made = (self._fill(files, again) for files in some if not self._is_to_stop())
            filled += (each for each in made if each is not None)
            self._commit(filled)
        finally:
            for each in filled:
                if each.transaction.status is TransactionStatus.PENDING:
                    run(each.transaction.abort())

    def _without_too_long(
        self, files: Iterable[FoundFile], error: QuotaExceeded
    ) -> list[FoundFile]:
        """Tell of the files that are longer than a quota, and give the others.

        Raises the error if there is none, or if all files are to have one transaction.
        """
        too_long: list[FoundFile] = []
        others: list[FoundFile] = []
        for each in files:
            (too_long if each.size > error.limit else others).append(each)
        if not too_long or self._files_per_transaction is None:
            raise error
        for each in too_long:
            why = f"it has {each.size} bytes, and the {error.quota} quota is {error.limit} bytes"
            said = f"{each.path} is left out: {why}; raise the quota, then send again"
            self._tell(LeftOut(each.path, why, QuotaExceeded(said, **error.fields)))
        return others

    def _is_to_stop(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _fill(self, files: Sequence[FoundFile], again: list[str]) -> _Filled | None:
        """Send files in a new transaction; None if there was none to send after all.

        Raises the error of a file if all files are to have one transaction.
        """
        rest = list(files)
        while rest:
            transaction = run(Transaction.begin(self._to.link))
            self._ledger.check_manager(split_id(transaction.id)[0])
            filled = _Filled(transaction, [], [])
            try:
                for file in rest:
                    filled.sent.append(FileSent(file, self._send_in(filled, file)))
            except (SourceChanged, SourceUnreadable) as error:
                # Half a file is in the transaction.
                run(transaction.abort())
                if self._files_per_transaction is None:
                    raise _nothing_sent(error) from error
                refused = rest.pop(len(filled.sent))
                self._refuse(refused, error, again)
            except BaseException:
                run(transaction.abort())
                raise
            else:
                return filled
        return None

    def _send_in(self, filled: _Filled, file: FoundFile) -> MessageId:
        asked = {} if self._asking is None else self._asking._asdict()
        label = _label_of(file.path)
        send = partial(self._to.queue.send, file=file.properties, transaction=filled.transaction)
        with self._tree.body_of(file) as source:
            id = run(send(source, label=label, **asked))
        if self._manifest is not None:
            # A file that is the same before and after was the same when it was sent.
            with self._tree.body_of(file) as source:
                filled.listed.append(entry_of(file.path, source))
        if self._look_again(file) is None:
            raise SourceChanged(f"{file.path} changed while Dray sent it", path=file.path)
        return id

    def _look_again(self, file: FoundFile) -> FoundFile | None:
        found = self._tree.look_at(file.path)
        return found if isinstance(found, FoundFile) and found.version == file.version else None

    def _refuse(self, file: FoundFile, error: Exception, again: list[str]) -> None:
        found = self._tree.look_at(file.path)
        if isinstance(error, SourceChanged) or (
            isinstance(found, FoundFile) and found.version != file.version
        ):
            again.append(file.path)
        elif found is not None:
            assert isinstance(error, SourceUnreadable)
            self._tell(LeftOut(file.path, str(error), error))

    def _commit(self, filled: Sequence[_Filled]) -> None:
        if not filled:
            return
        ids = {sent.file.path: str(sent.id) for each in filled for sent in each.sent}
        self._ledger.begin(
            ((each.transaction.id, [sent.file for sent in each.sent]) for each in filled),
            None if self._asking is None else ids,
        )
        outcomes: list[tuple[str, bool]] = []
        failures: list[Exception] = []
        errors = run(commit_all([each.transaction for each in filled]))
        for each, error in zip(filled, errors, strict=True):
            if error is not None:
                failures.append(error)
            if error is None or isinstance(error, TransactionAborted):
                outcomes.append((each.transaction.id, error is None))
        committed = {id for id, is_committed in outcomes if is_committed}
        self._settle(outcomes)
        for each in filled:
            if each.transaction.id in committed:
                self.count += len(each.sent)
                self.bytes += sum(sent.file.size for sent in each.sent)
                if self._manifest is not None:
                    self._manifest.write(lines_of(each.listed))
                if self._asking is not None and self._arrivals is None:
                    self.awaited += each.sent
                for sent in each.sent:
                    self._tell(sent)
        self._clear()
        if failures:
            # A commit in doubt has to be settled before anything is sent again.
            raise min(failures, key=lambda error: isinstance(error, QuotaExceeded))

    def _settle(self, outcomes: Iterable[tuple[str, bool]]) -> None:
        clear = self._clearing is not None
        self._ledger.settle(outcomes, clear=clear, arrives=self._asking is not None)

    def send_file(self, file: Path, properties: FileProperties) -> None:
        """Send one more file that is not of the folder, such as the manifest."""
        asked = {} if self._asking is None else self._asking._asdict()
        id = run(self._to.queue.send(file, label=properties.path, file=properties, **asked))
        found = FoundFile(properties.path, properties.size, properties.mtime_ns, 0)
        sent = FileSent(found, id)
        if self._asking is not None:
            self.awaited.append(sent)
        self._tell(sent)

    def arrived(self) -> None:
        """Note that all files that were sent have arrived; those that are to go, go now."""
        self._ledger.arrived([each.file for each in self.awaited])
        self.awaited = []
        self._clear()

    def take_arrivals(self) -> None:
        """Remove the files that have arrived meanwhile; tell of those that were refused."""
        if self._arrivals is not None:
            for stays in self._arrivals.take():
                self._tell(stays)
        self._clear()

    def _clear(self, folders: Mapping[str, Path] | None = None) -> None:
        """Remove from the folder what was sent and is to go; name what cannot be removed.

        `folders` has those of files that a killed run has hidden.
        """
        if self._clearing is None:
            return
        if self._try_again_at is not None and time.monotonic() >= self._try_again_at:
            self._ledger.try_again()
            self._try_again_at = None
        gone: list[FoundFile] = []
        newer: list[FoundFile] = []
        stuck: list[FoundFile] = []
        for file in self._ledger.to_clear():
            try:
                is_gone = self._clearing.clear(file, (folders or {}).get(file.path))
            except OSError as error:
                self._tell(_not_removed(file.path, error))
                stuck.append(file)
            else:
                (gone if is_gone else newer).append(file)
        if gone:
            self._ledger.cleared(gone, gone=True)
        if newer:
            self._ledger.cleared(newer, gone=False)
        if stuck:
            self._ledger.stay(stuck)
            self._try_again_at = self._try_again_at or time.monotonic() + _CLEAR_AGAIN_S


def _nothing_sent(error: SourceChanged | SourceUnreadable) -> SourceChanged | SourceUnreadable:
    why = f"{error}; nothing of the folder was sent, because it has one transaction: send it again"
    return type(error)(why, path=error.path)


def _not_removed(path: str, error: OSError) -> LeftOut:
    reason = f"it was sent and cannot be removed from its folder: {error.strerror or error}"
    advice = "mend that, and the next run removes it"
    return LeftOut(path, reason, TargetUnwritable(f"{path}: {reason}; {advice}", path=path))


def _forgotten(transaction_id: str, files: Sequence[FoundFile]) -> InDoubt:
    more = f" and {counted(len(files) - 1, 'more file')}" if len(files) > 1 else ""
    return InDoubt(
        f"the queue manager no longer knows whether transaction {transaction_id} committed, which"
        f" sent {files[0].path!r}{more}; look for them at their receiver, then run the command"
        " again with `--in-doubt sent` or `--in-doubt send`",
        transaction_id=transaction_id,
    )


def _portions(
    files: Sequence[FoundFile], per_transaction: int | None
) -> Iterator[list[Sequence[FoundFile]]]:
    """Cut into transactions, and these into what is staged at once."""
    if per_transaction is None:
        if files:
            yield [files]
        return
    portion: list[Sequence[FoundFile]] = []
    size = 0
    for start in range(0, len(files), per_transaction):
        some = files[start : start + per_transaction]
        portion.append(some)
        size += sum(each.size for each in some)
        if len(portion) == TRANSACTIONS_AT_ONCE or size >= BYTES_AT_ONCE:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion


def _label_of(path: str) -> str:
    """The label of a file's message: its path, the end of it if that is too long."""
    return os.fsencode(path).decode("utf-8", "replace")[-LABEL_CHARACTERS_MAX:]
