"""Errors of a correct call that did not succeed, or whose outcome is not known.

The last ones are of one large message.
"""

from __future__ import annotations

from dray.errors.root import DrayError


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


class DeliveryRefused(DrayError):
    """The destination refused the message, or it ended there without being received.

    `id` is the id of the message, `message_class` says why (a `dray.MessageClass`).
    """

    code = "delivery-refused"
    exit_status = 36
    id: str
    message_class: int


class DeliveryTimeout(DrayError, TimeoutError):
    """Messages had not arrived in time; they are sent, and still on their way.

    `ids` are their ids: wait for these again, and do not send the messages again.
    """

    code = "delivery-timeout"
    exit_status = 37
    ids: list[str]


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
