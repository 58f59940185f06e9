"""Enumerations that users see: message classes, acknowledgments, transaction states."""

from __future__ import annotations

import enum


class MessageClass(enum.IntEnum):
    """The class of a message. Bit 15 marks the negative ones, bit 14 those of the receive phase."""

    NORMAL = 0x0000
    REPORT = 0x0001
    ACK_REACH_QUEUE = 0x0002
    ORDER_ACK = 0x00FF
    ACK_RECEIVE = 0x4000
    NACK_BAD_DST_Q = 0x8000
    NACK_PURGED = 0x8001
    NACK_REACH_QUEUE_TIMEOUT = 0x8002
    NACK_Q_EXCEED_QUOTA = 0x8003
    NACK_ACCESS_DENIED = 0x8004
    NACK_HOP_COUNT_EXCEEDED = 0x8005
    NACK_BAD_SIGNATURE = 0x8006
    NACK_BAD_ENCRYPTION = 0x8007
    NACK_COULD_NOT_ENCRYPT = 0x8008
    NACK_NOT_TRANSACTIONAL_Q = 0x8009
    NACK_NOT_TRANSACTIONAL_MSG = 0x800A
    NACK_UNSUPPORTED_CRYPTO_PROVIDER = 0x800B
    NACK_SOURCE_COMPUTER_GUID_CHANGED = 0x800C
    NACK_Q_DELETED = 0xC000
    NACK_Q_PURGED = 0xC001
    NACK_RECEIVE_TIMEOUT = 0xC002
    NACK_RECEIVE_TIMEOUT_AT_SENDER = 0xC003
    NACK_RECEIVE_REJECTED = 0xC004
    # The public face calls the deletion of a queue by this name.
    NACK_QUEUE_DELETED = 0xC000


class Acknowledge(enum.IntFlag):
    """The acknowledgment messages that the sender asks for (semantics 1.6)."""

    NONE = 0
    POSITIVE_ARRIVAL = 1
    POSITIVE_RECEIVE = 2
    NEGATIVE_ARRIVAL = 4
    NEGATIVE_RECEIVE = 8
    FULL_REACH_QUEUE = 1 | 4
    FULL_RECEIVE = 2 | 4 | 8


class TransactionStatus(enum.StrEnum):
    """The state of a transaction."""

    PENDING = "pending"
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"
    IN_DOUBT = "in-doubt"
    UNKNOWN = "unknown"


class QueueKind(enum.StrEnum):
    """The purpose of a queue."""

    PRIVATE = "private"
    OUTGOING = "outgoing"
    SYSTEM = "system"
    JOURNAL = "journal"
    SUB = "sub-queue"


class Part(enum.IntEnum):
    """The role of a message record in a large message (S0-8)."""

    PLAIN = 0
    HEADER = 1
    FRAGMENT = 2
    TRAILER = 3
