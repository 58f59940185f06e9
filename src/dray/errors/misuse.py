"""Errors of the caller: the call cannot succeed as it was made."""

from __future__ import annotations

from dray.errors.root import DrayError


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

    Or its store was restored. Positions from the earlier queue are not valid in the new one.
    """

    code = "queue-recreated"
    exit_status = 34
    queue: str
    born: int
    expected: int


class BatchMismatch(Misuse):
    """The query has sent a batch of this id with other rows, or is past it already."""

    code = "batch-mismatch"
    exit_status = 35
    query: str
    batch: int


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


class FileRefused(Misuse):
    """The received file cannot be restored under its path; its message is still in the queue."""

    code = "file-refused"
    exit_status = 38
    path: str


class CommandFailed(Misuse):
    """The command for a received file failed; its message is tried again or given up."""

    code = "command-failed"
    exit_status = 39
    path: str
    status: int


class JavaMissing(Misuse):
    """Spark needs Java, and Dray found no version that Spark supports."""

    code = "java-missing"
    exit_status = 24


class TargetUnwritable(Misuse):
    """Dray cannot write a received body or a ledger; the message is still in its queue."""

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
