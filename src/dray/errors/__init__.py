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

from dray.errors.misuse import *
from dray.errors.outcomes import *
from dray.errors.peers import *
from dray.errors.root import *
from dray.errors.store import *
