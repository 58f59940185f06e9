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
│   ├── BatchMismatch           ├── FileRefused           ├── CommandFailed
│   └── InvalidArgument         an argument has a wrong type or value (also a ValueError)
├── QuotaExceeded               the message would exceed a quota
├── ReceiveTimeout              no message came in time (also a TimeoutError)
├── InDoubt                     the answer to a commit or a send was lost: ask `Manager.outcome`
├── DeliveryRefused             the destination refused a message that was sent
├── DeliveryTimeout             sent messages had not arrived in time (also a TimeoutError)
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

from dray.errors.misuse import (
    AccessDenied,
    BatchMismatch,
    CommandFailed,
    FileRefused,
    IllegalCursorAction,
    InvalidArgument,
    InvalidConfiguration,
    InvalidQueueName,
    JavaMissing,
    LargeMessageMixing,
    MessageAlreadyReceived,
    MessageNotFound,
    MessageTooLarge,
    Misuse,
    NotTransactional,
    QueueExists,
    QueueNotFound,
    QueueRecreated,
    SourceChanged,
    SourceUnreadable,
    StatusQueueMissing,
    TargetUnwritable,
    TransactionSequence,
    TransactionUsage,
    TransferSourceChanged,
    WrongProcess,
)
from dray.errors.outcomes import (
    DeliveryRefused,
    DeliveryTimeout,
    InDoubt,
    LargeMessageCorrupt,
    LargeMessageError,
    LargeMessageHole,
    QuotaExceeded,
    ReceiveTimeout,
    TransactionAborted,
)
from dray.errors.peers import (
    AddressInUse,
    ConnectionLost,
    PeerError,
    ProtocolError,
    TransferCancelled,
    TransferRefused,
    TransferTimeout,
)
from dray.errors.root import DrayError, every_error, from_code, in_one_line
from dray.errors.store import (
    BackupDamaged,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreMoved,
    StorePoisoned,
)

__all__ = [
    "AccessDenied",
    "AddressInUse",
    "BackupDamaged",
    "BatchMismatch",
    "CommandFailed",
    "ConnectionLost",
    "DeliveryRefused",
    "DeliveryTimeout",
    "DrayError",
    "FileRefused",
    "IllegalCursorAction",
    "InDoubt",
    "InvalidArgument",
    "InvalidConfiguration",
    "InvalidQueueName",
    "JavaMissing",
    "LargeMessageCorrupt",
    "LargeMessageError",
    "LargeMessageHole",
    "LargeMessageMixing",
    "MessageAlreadyReceived",
    "MessageNotFound",
    "MessageTooLarge",
    "Misuse",
    "NotTransactional",
    "PeerError",
    "ProtocolError",
    "QueueExists",
    "QueueNotFound",
    "QueueRecreated",
    "QuotaExceeded",
    "ReceiveTimeout",
    "SourceChanged",
    "SourceUnreadable",
    "StatusQueueMissing",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreMoved",
    "StorePoisoned",
    "TargetUnwritable",
    "TransactionAborted",
    "TransactionSequence",
    "TransactionUsage",
    "TransferCancelled",
    "TransferRefused",
    "TransferSourceChanged",
    "TransferTimeout",
    "WrongProcess",
    "every_error",
    "from_code",
    "in_one_line",
]
