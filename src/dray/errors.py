"""Every error Dray raises, as one tree.

DrayError
├── Misuse                      the call cannot succeed as it was made
│   ├── InvalidQueueName        ├── QueueNotFound         ├── QueueExists
│   ├── TransactionUsage        ├── TransactionSequence   ├── NotTransactional
│   ├── MessageTooLarge         ├── MessageNotFound       ├── AccessDenied
│   ├── LargeMessageMixing      ├── StatusQueueMissing    ├── InvalidConfiguration
│   ├── SourceUnreadable        ├── SourceChanged         ├── TargetUnwritable
│   │                           │   └── TransferSourceChanged
│   ├── JavaMissing             ├── MessageAlreadyReceived
│   ├── IllegalCursorAction     ├── WrongProcess          ├── QueueRecreated
│   └── InvalidArgument         an argument has a wrong type or value (also a ValueError)
├── QuotaExceeded               the message would exceed a quota
├── ReceiveTimeout              no message came in time (also a TimeoutError)
├── InDoubt                     the answer to a commit or a send was lost: ask `Manager.outcome`
├── TransactionAborted          the queue manager aborted the transaction; the sentence says why
├── StoreError
│   ├── StoreLocked             ├── StoreCorrupt          ├── StorePoisoned
│   ├── StoreFull               ├── BackupDamaged         └── StoreMoved
├── PeerError
│   ├── ConnectionLost          ├── ProtocolError         ├── AddressInUse
│   ├── TransferTimeout         ├── TransferCancelled     └── TransferRefused
└── LargeMessageError
    ├── LargeMessageHole        └── LargeMessageCorrupt

Each class has a stable `code` (on the wire, in the documentation) and an `exit_status` for the
command line. `retryable` says whether the caller may repeat the same call: the repeat may succeed,
and it does nothing twice. The message is one sentence: what happened, to what, what to do. Keyword
fields become attributes and travel with the code. A field `retryable=False` overrides the class for
one error.
"""

from __future__ import annotations

from typing import ClassVar


def in_one_line(text: str) -> str:
    """Write characters that have no shape, such as a line break in a path, as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


class DrayError(Exception):
    """The class of every error that Dray raises on purpose."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 1
    retryable = False

    def __init__(self, sentence: str, **fields: object) -> None:
        """Keep the `sentence` for people and the `fields` for programs, as attributes."""
        super().__init__(in_one_line(sentence))
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the sentence and the fields, so that Spark's workers can send the error."""
        return _rebuild, (type(self), str(self), self.fields)


class Misuse(DrayError):
    """The call cannot succeed as it was made; change the call."""

    code = "misuse"


class InvalidArgument(Misuse, ValueError):
    """The argument named `argument` has a wrong type or value. The call did nothing."""

    code = "invalid-argument"
    exit_status = 9
    argument: str


class InvalidQueueName(Misuse):
    r"""The name is not a queue name: 1 to 124 characters (sub-queue: 32), without `\ ; + , " /`."""

    code = "invalid-queue-name"
    exit_status = 10


class QueueNotFound(Misuse):
    """The queue manager has no queue of that name."""

    code = "queue-not-found"
    exit_status = 11
    queue: str


class QueueExists(Misuse):
    """The queue manager already has a queue of that name."""

    code = "queue-exists"
    exit_status = 12
    queue: str


class QueueRecreated(Misuse):
    """The queue was deleted and created again after the caller read its `born` number.

    Positions from the earlier queue are not valid in the new one.
    """

    code = "queue-recreated"
    exit_status = 34
    queue: str
    born: int
    expected: int


class TransactionUsage(Misuse):
    """The queue needs a transaction and the call has none, or the other way round."""

    code = "transaction-usage"
    exit_status = 13


class TransactionSequence(Misuse):
    """The transaction has already ended, or belongs to another connection."""

    code = "transaction-sequence"
    exit_status = 14
    transaction_id: str


class NotTransactional(Misuse):
    """The queue is not transactional, and large messages need a transactional queue."""

    code = "not-transactional"
    exit_status = 15
    queue: str


class MessageTooLarge(Misuse):
    """A plain message with its properties is over the limit; `LargeMessageQueue` has no limit."""

    code = "message-too-large"
    exit_status = 16
    size: int
    limit: int


class MessageNotFound(Misuse):
    """The queue has no available message with that id, position or property."""

    code = "message-not-found"
    exit_status = 17


class AccessDenied(Misuse):
    """The queue manager keeps this queue for itself and does not let clients do that."""

    code = "access-denied"
    exit_status = 18


class LargeMessageMixing(Misuse):
    """Plain and large messages met in one queue; a queue holds one kind at a time."""

    code = "large-message-mixing"
    exit_status = 19
    queue: str


class StatusQueueMissing(Misuse):
    """The status queue is missing, not transactional, or in use for something else."""

    code = "status-queue-missing"
    exit_status = 20
    queue: str


class InvalidConfiguration(Misuse):
    """An option, a configuration file or an address is not valid."""

    code = "invalid-configuration"
    exit_status = 21


class SourceUnreadable(Misuse):
    """The file to send is missing or cannot be read."""

    code = "source-unreadable"
    exit_status = 22
    path: str


class SourceChanged(Misuse):
    """The file changed while Dray sent it; nothing of it was committed."""

    code = "source-changed"
    exit_status = 23
    retryable = True
    path: str


class TransferSourceChanged(SourceChanged):
    """The offered file changed after it was offered; `transfer_id` names the offer.

    The offer is over and no consumer gets the changed file: offer the file again.
    """

    code = "transfer-source-changed"
    exit_status = 28
    retryable = False
    transfer_id: str


class JavaMissing(Misuse):
    """Spark needs Java, and Dray found no version that Spark supports."""

    code = "java-missing"
    exit_status = 24


class TargetUnwritable(Misuse):
    """Dray cannot write a received body to its target; the message is still in the queue."""

    code = "target-unwritable"
    exit_status = 25
    path: str


class MessageAlreadyReceived(Misuse):
    """Another reader has taken the message at which the cursor stands."""

    code = "message-already-received"
    exit_status = 26


class IllegalCursorAction(Misuse):
    """The cursor has no current message: it received that message, or it is closed."""

    code = "illegal-cursor-action"
    exit_status = 27


class WrongProcess(Misuse):
    """The object works only in process `process`, from which this process was forked."""

    code = "wrong-process"
    exit_status = 29
    process: int


class QuotaExceeded(DrayError):
    """The message would exceed a quota.

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
    """No message became available before the timeout."""

    code = "receive-timeout"
    exit_status = 31
    retryable = True


class InDoubt(DrayError):
    """The answer to a commit or a send was lost: the call may or may not have taken effect.

    `Manager.outcome(transaction_id)` tells which. After a `send_many` that sends in several batches
    the first `sent` messages were sent and the next `count` are in doubt.
    """

    code = "in-doubt"
    exit_status = 32
    transaction_id: str
    sent: int = 0
    count: int = 0


class TransactionAborted(DrayError):
    """The queue manager has aborted the transaction; none of its operations took effect."""

    code = "transaction-aborted"
    exit_status = 33
    retryable = True
    transaction_id: str


class StoreError(DrayError):
    """The queue manager cannot use its data directory."""

    code = "store-error"
    exit_status = 40


class StoreLocked(StoreError):
    """Another live process uses the data directory."""

    code = "store-locked"
    exit_status = 41
    retryable = True


class StoreCorrupt(StoreError):
    """A file of the store, `file`, is missing or damaged; `event` is the number of the fault."""

    code = "store-corrupt"
    exit_status = 42
    event: int
    file: str


class StorePoisoned(StoreError):
    """A write or sync failed; the store accepts nothing more until it is opened again."""

    code = "store-poisoned"
    exit_status = 43


class StoreFull(StoreError):
    """The disk has no room; the queue manager kept nothing of the refused message."""

    code = "store-full"
    exit_status = 44
    retryable = True


class BackupDamaged(StoreError):
    """The archive is damaged, truncated or not a backup; nothing was restored."""

    code = "backup-damaged"
    exit_status = 45
    archive: str


class StoreMoved(StoreError):
    """The store of `directory` was moved to another directory, `to`."""

    code = "store-moved"
    exit_status = 46
    directory: str
    to: str


class PeerError(DrayError):
    """The other end of a connection failed."""

    code = "peer-error"
    exit_status = 50
    retryable = True


class ConnectionLost(PeerError):
    """The connection could not be made, or it broke.

    One of these errors is not retryable if the call may have taken effect and a repeat could act
    twice.
    """

    code = "connection-lost"
    exit_status = 51


class ProtocolError(PeerError):
    """The other end sent bytes that are not a Dray frame, or a frame that is not allowed here."""

    code = "protocol-error"
    exit_status = 52
    retryable = False


class AddressInUse(PeerError):
    """Another process already listens on that address."""

    code = "address-in-use"
    exit_status = 53


class TransferTimeout(PeerError):
    """No consumer answered a file offer in time, or the other end of a transfer fell silent."""

    code = "transfer-timeout"
    exit_status = 54
    transfer_id: str


class TransferCancelled(PeerError):
    """One end cancelled the file transfer; it cannot be resumed."""

    code = "transfer-cancelled"
    exit_status = 55
    retryable = False
    transfer_id: str


class TransferRefused(PeerError):
    """The producer of the offered file already has a consumer, or accepts no more."""

    code = "transfer-refused"
    exit_status = 56
    retryable = False
    transfer_id: str


class LargeMessageError(DrayError):
    """One large message cannot be received; `sequence_id` names it."""

    code = "large-message-error"
    exit_status = 60
    sequence_id: str


class LargeMessageHole(LargeMessageError):
    """Parts of a large message are missing.

    `missing` lists ranges [first, last] of fragment numbers, "header" and "trailer".
    """

    code = "large-message-hole"
    exit_status = 61
    missing: list[object]


class LargeMessageCorrupt(LargeMessageError):
    """The received bytes differ from the bytes that the sender sent."""

    code = "large-message-corrupt"
    exit_status = 62


def every_error() -> dict[str, type[DrayError]]:
    """Map each code to its class."""
    found: dict[str, type[DrayError]] = {}
    pending: list[type[DrayError]] = [DrayError]
    while pending:
        cls = pending.pop()
        found[cls.code] = cls
        pending.extend(cls.__subclasses__())
    return found


def from_code(code: str, sentence: str, fields: dict[str, object]) -> DrayError:
    """Rebuild an error that came over the wire; an unknown code gives a plain `DrayError`."""
    return every_error().get(code, DrayError)(sentence, **fields)


def _rebuild(cls: type[DrayError], sentence: str, fields: dict[str, object]) -> DrayError:
    return cls(sentence, **fields)
