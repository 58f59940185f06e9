"""Every error Dray raises, as one tree.

DrayError
├── Misuse                      the caller asked for something that cannot be
│   ├── InvalidQueueName        ├── QueueNotFound         ├── QueueExists
│   ├── TransactionUsage        ├── TransactionSequence   ├── NotTransactional
│   ├── MessageTooLarge         ├── MessageNotFound       ├── AccessDenied
│   ├── LargeMessageMixing      ├── StatusQueueMissing    ├── InvalidConfiguration
│   ├── SourceUnreadable        ├── SourceChanged         ├── TargetUnwritable
│   │                           │   └── TransferSourceChanged
│   ├── JavaMissing             ├── MessageAlreadyReceived
│   ├── IllegalCursorAction     ├── WrongProcess          ├── QueueRecreated
│   └── InvalidArgument         an argument makes no sense (also a ValueError)
├── QuotaExceeded               a quota would be passed
├── ReceiveTimeout              nothing came in time (also a TimeoutError)
├── InDoubt                     the answer to a commit or a send was lost: ask `Manager.outcome`
├── TransactionAborted          the queue manager ended the transaction; the sentence says why
├── StoreError
│   ├── StoreLocked             ├── StoreCorrupt          ├── StorePoisoned
│   ├── StoreFull               ├── BackupDamaged         └── StoreMoved
├── PeerError
│   ├── ConnectionLost          ├── ProtocolError         ├── AddressInUse
│   ├── TransferTimeout         ├── TransferCancelled     └── TransferRefused
└── LargeMessageError
    ├── LargeMessageHole        └── LargeMessageCorrupt

Each class has a stable `code` (on the wire, in the documentation), an `exit_status` for the
command line and says whether the same call may be made again (`retryable`): it may succeed then,
and it does nothing twice. The message is one sentence: what happened, to what, what to do. Keyword
fields become attributes and travel with the code; `retryable=False` among them says that this one
error is no reason to repeat the call.
"""

from __future__ import annotations

from typing import ClassVar


class DrayError(Exception):
    """Anything Dray raises on purpose."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 1
    retryable = False

    def __init__(self, sentence: str, **fields: object) -> None:
        """Keep the `sentence` for people and the `fields` for programs, as attributes."""
        super().__init__(sentence)
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Cross process borders (Spark's workers) whole: sentence and fields."""
        return _rebuild, (type(self), str(self), self.fields)


class Misuse(DrayError):
    """The call cannot succeed as it was made; change the call."""

    code = "misuse"


class InvalidArgument(Misuse, ValueError):
    """An argument of a call makes no sense; `argument` is its name. Nothing was done."""

    code = "invalid-argument"
    exit_status = 9
    argument: str


class InvalidQueueName(Misuse):
    r"""No name for a queue: 1 to 124 characters, 32 of a sub-queue, without `\ ; + , " /`."""

    code = "invalid-queue-name"
    exit_status = 10


class QueueNotFound(Misuse):
    """No queue of that name on this queue manager."""

    code = "queue-not-found"
    exit_status = 11
    queue: str


class QueueExists(Misuse):
    """A queue of that name is already there."""

    code = "queue-exists"
    exit_status = 12
    queue: str


class QueueRecreated(Misuse):
    """The queue was deleted and made again since its `born` number was read.

    Positions that were read from the earlier queue mean nothing in this one.
    """

    code = "queue-recreated"
    exit_status = 34
    queue: str
    born: int
    expected: int


class TransactionUsage(Misuse):
    """A transaction where none can be, or none where one must be (semantics 1.5)."""

    code = "transaction-usage"
    exit_status = 13


class TransactionSequence(Misuse):
    """The transaction is already finished (R4)."""

    code = "transaction-sequence"
    exit_status = 14
    transaction_id: str


class NotTransactional(Misuse):
    """Large messages need a transactional queue (S0-2)."""

    code = "not-transactional"
    exit_status = 15
    queue: str


class MessageTooLarge(Misuse):
    """A plain message with its properties is over the limit; `LargeMessageQueue` has none."""

    code = "message-too-large"
    exit_status = 16
    size: int
    limit: int


class MessageNotFound(Misuse):
    """No available message fits the id that was asked for."""

    code = "message-not-found"
    exit_status = 17


class AccessDenied(Misuse):
    """The caller may not do that."""

    code = "access-denied"
    exit_status = 18


class LargeMessageMixing(Misuse):
    """A plain send or receive on a queue in large use (S0-3)."""

    code = "large-message-mixing"
    exit_status = 19
    queue: str


class StatusQueueMissing(Misuse):
    """The receiver's status queue is absent or not transactional (S0-4)."""

    code = "status-queue-missing"
    exit_status = 20
    queue: str


class InvalidConfiguration(Misuse):
    """An option, a file of options or an address that cannot be understood."""

    code = "invalid-configuration"
    exit_status = 21


class SourceUnreadable(Misuse):
    """A file that was to be sent is missing or cannot be read."""

    code = "source-unreadable"
    exit_status = 22
    path: str


class SourceChanged(Misuse):
    """A file changed while it was being sent; nothing of it was committed."""

    code = "source-changed"
    exit_status = 23
    retryable = True
    path: str


class TransferSourceChanged(SourceChanged):
    """An offered file is no longer what it was when it was offered; `transfer_id` names the offer.

    Nobody gets a file that was not offered so: offer it anew.
    """

    code = "transfer-source-changed"
    exit_status = 28
    retryable = False
    transfer_id: str


class JavaMissing(Misuse):
    """Spark was asked for and no Java that it supports was found."""

    code = "java-missing"
    exit_status = 24


class TargetUnwritable(Misuse):
    """A received body cannot be written where it was to go; its message is still in the queue."""

    code = "target-unwritable"
    exit_status = 25
    path: str


class MessageAlreadyReceived(Misuse):
    """The message at which a cursor stands has been taken by another reader."""

    code = "message-already-received"
    exit_status = 26


class IllegalCursorAction(Misuse):
    """The cursor stands at no message: it was received through it, or the cursor is closed."""

    code = "illegal-cursor-action"
    exit_status = 27


class WrongProcess(Misuse):
    """The object belongs to `process`, from which this process was forked, and works there only."""

    code = "wrong-process"
    exit_status = 29
    process: int


class QuotaExceeded(DrayError):
    """A quota would be passed (R69).

    `quota` is "computer", "queue" or "journal"; `limit`, `used` and `requested` are bytes.
    """

    code = "quota-exceeded"
    exit_status = 30
    retryable = True
    quota: str
    limit: int
    used: int
    requested: int


class ReceiveTimeout(DrayError, TimeoutError):
    """No message became available in time."""

    code = "receive-timeout"
    exit_status = 31
    retryable = True


class InDoubt(DrayError):
    """The answer to a commit or a send was lost: it may or may not have happened (S2-3).

    `Manager.outcome(transaction_id)` tells. Of a `send_many` that goes piece by piece, the first
    `sent` messages were sent and the next `count` are in doubt.
    """

    code = "in-doubt"
    exit_status = 32
    transaction_id: str
    sent: int = 0
    count: int = 0


class TransactionAborted(DrayError):
    """The queue manager has ended the transaction; nothing of it happened."""

    code = "transaction-aborted"
    exit_status = 33
    retryable = True
    transaction_id: str


class StoreError(DrayError):
    """Something about the data directory."""

    code = "store-error"
    exit_status = 40


class StoreLocked(StoreError):
    """The data directory belongs to a live process."""

    code = "store-locked"
    exit_status = 41
    retryable = True


class StoreCorrupt(StoreError):
    """A file of the store is damaged. `event` is the number of semantics 3.3, `file` its name."""

    code = "store-corrupt"
    exit_status = 42
    event: int
    file: str


class StorePoisoned(StoreError):
    """A write or sync failed; the store accepts nothing more until it is reopened."""

    code = "store-poisoned"
    exit_status = 43


class StoreFull(StoreError):
    """The disk has no room; nothing of the refused message was kept."""

    code = "store-full"
    exit_status = 44
    retryable = True


class BackupDamaged(StoreError):
    """An archive is damaged, cut short or no backup at all; nothing was restored."""

    code = "backup-damaged"
    exit_status = 45
    archive: str


class StoreMoved(StoreError):
    """The store of the data directory is in another one, `to`."""

    code = "store-moved"
    exit_status = 46
    directory: str
    to: str


class PeerError(DrayError):
    """Something about the other end of a connection."""

    code = "peer-error"
    exit_status = 50
    retryable = True


class ConnectionLost(PeerError):
    """The connection could not be made, or ended.

    It is not retryable where the call may have changed something and a repeat could change more.
    """

    code = "connection-lost"
    exit_status = 51


class ProtocolError(PeerError):
    """Bytes that are no Dray frame, or a frame that may not come here."""

    code = "protocol-error"
    exit_status = 52
    retryable = False


class AddressInUse(PeerError):
    """Another process listens on that address."""

    code = "address-in-use"
    exit_status = 53


class TransferTimeout(PeerError):
    """No consumer answered a file offer in time, or one fell silent."""

    code = "transfer-timeout"
    exit_status = 54
    transfer_id: str


class TransferCancelled(PeerError):
    """A file transfer was cancelled, here or at its other end; nothing of it can be resumed."""

    code = "transfer-cancelled"
    exit_status = 55
    retryable = False
    transfer_id: str


class TransferRefused(PeerError):
    """The producer of an offered file has another consumer, or takes no more of them."""

    code = "transfer-refused"
    exit_status = 56
    retryable = False
    transfer_id: str


class LargeMessageError(DrayError):
    """Something about one large message; `sequence_id` names it."""

    code = "large-message-error"
    exit_status = 60
    sequence_id: str


class LargeMessageHole(LargeMessageError):
    """Parts are missing (S0-15).

    `missing` lists ranges [first, last] of fragment numbers, "header" and "trailer".
    """

    code = "large-message-hole"
    exit_status = 61
    missing: list[object]


class LargeMessageCorrupt(LargeMessageError):
    """The bytes that came are not the bytes that were sent."""

    code = "large-message-corrupt"
    exit_status = 62


def every_error() -> dict[str, type[DrayError]]:
    """All classes of the tree by their code."""
    found: dict[str, type[DrayError]] = {}
    pending: list[type[DrayError]] = [DrayError]
    while pending:
        cls = pending.pop()
        found[cls.code] = cls
        pending.extend(cls.__subclasses__())
    return found


def from_code(code: str, sentence: str, fields: dict[str, object]) -> DrayError:
    """Make the error that came over the wire; an unknown code gives a plain `DrayError`."""
    return every_error().get(code, DrayError)(sentence, **fields)


def _rebuild(cls: type[DrayError], sentence: str, fields: dict[str, object]) -> DrayError:
    return cls(sentence, **fields)
