"""Dray: a transactional message queue for large payloads, with Spark at both ends.

`open` runs a queue manager in this process, `connect` reaches one elsewhere; both give a manager
with queues and transactions. `LargeMessageQueue` sends and receives payloads of any size.

Each name loads its module when a program first uses it, so `import dray` costs next to nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself takes as long to load as everything before it
if TYPE_CHECKING:
    from types import ModuleType

    from dray.client.awaited.receiver import Fate, Handled
    from dray.client.blocking.file_transfer import Incoming, Offer, RunningTransfer
    from dray.client.blocking.large import LargeMessageQueue
    from dray.client.blocking.large_message import LargeMessage
    from dray.client.blocking.manager import Manager, connect
    from dray.client.blocking.queue import Cursor, Queue
    from dray.client.blocking.receiver import Receiver
    from dray.client.blocking.transaction import Transaction
    from dray.client.calls.messages import ReceivedTransaction
    from dray.errors import *
    from dray.large.split import LargeMessageParameters
    from dray.local import open, restore  # noqa: A004 - the name of the public face
    from dray.model.access_info import AccessInfo
    from dray.model.classes import Acknowledge, MessageClass, TransactionStatus
    from dray.model.files import FileProperties
    from dray.model.finding import DoctorFinding
    from dray.model.message import Message
    from dray.model.queue import ManagerInfo, PeerInfo, QueueInfo
    from dray.model.queued import QueuedMessage, QueuedPart, Wholeness
    from dray.model.tokens import TokenInfo
    from dray.model.transfer import TransferState, TransferStatus

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "AccessInfo",
    "Acknowledge",
    "AddressInUse",
    "BackupDamaged",
    "BatchMismatch",
    "CommandFailed",
    "ConnectionLost",
    "Cursor",
    "DeliveryRefused",
    "DeliveryTimeout",
    "DoctorFinding",
    "DrayError",
    "Fate",
    "FileProperties",
    "FileRefused",
    "Handled",
    "IllegalCursorAction",
    "InDoubt",
    "Incoming",
    "InvalidArgument",
    "InvalidConfiguration",
    "InvalidQueueName",
    "JavaMissing",
    "LargeMessage",
    "LargeMessageCorrupt",
    "LargeMessageError",
    "LargeMessageHole",
    "LargeMessageMixing",
    "LargeMessageParameters",
    "LargeMessageQueue",
    "Manager",
    "ManagerInfo",
    "Message",
    "MessageAlreadyReceived",
    "MessageClass",
    "MessageNotFound",
    "MessageTooLarge",
    "Misuse",
    "NotTransactional",
    "Offer",
    "PeerError",
    "PeerInfo",
    "ProtocolError",
    "Queue",
    "QueueExists",
    "QueueInfo",
    "QueueNotFound",
    "QueueRecreated",
    "QueuedMessage",
    "QueuedPart",
    "QuotaExceeded",
    "ReceiveTimeout",
    "ReceivedTransaction",
    "Receiver",
    "RunningTransfer",
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
    "TokenInfo",
    "Transaction",
    "TransactionAborted",
    "TransactionSequence",
    "TransactionStatus",
    "TransactionUsage",
    "TransferCancelled",
    "TransferRefused",
    "TransferSourceChanged",
    "TransferState",
    "TransferStatus",
    "TransferTimeout",
    "Wholeness",
    "WrongProcess",
    "__version__",
    "connect",
    "open",
    "restore",
]

_HOMES = {
    "dray.client.awaited.receiver": "Fate Handled",
    "dray.client.blocking.file_transfer": "Incoming Offer RunningTransfer",
    "dray.client.blocking.large": "LargeMessageQueue",
    "dray.client.blocking.large_message": "LargeMessage",
    "dray.client.blocking.manager": "Manager connect",
    "dray.client.blocking.queue": "Cursor Queue",
    "dray.client.blocking.receiver": "Receiver",
    "dray.client.blocking.transaction": "Transaction",
    "dray.client.calls.messages": "ReceivedTransaction",
    "dray.large.split": "LargeMessageParameters",
    "dray.local": "open restore",
    "dray.model.classes": "Acknowledge MessageClass TransactionStatus",
    "dray.model.files": "FileProperties",
    "dray.model.message": "Message",
    "dray.model.queue": "ManagerInfo PeerInfo QueueInfo",
    "dray.model.finding": "DoctorFinding",
    "dray.model.queued": "QueuedMessage QueuedPart Wholeness",
    "dray.model.access_info": "AccessInfo",
    "dray.model.tokens": "TokenInfo",
    "dray.model.transfer": "TransferState TransferStatus",
}
"""Each module of the public face, and the names that it gives; errors come from `dray.errors`."""
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}
_PACKAGES = frozenset({"aio", "errors"})
"""Modules that need no import of their own: `dray.NAME` loads them."""


def __getattr__(name: str) -> object:
    """Load what is asked for by name, once."""
    if name in _PACKAGES:
        home = f"dray.{name}"
    elif name in __all__:
        home = _HOME_OF.get(name, "dray.errors")
    else:
        raise AttributeError(f"module 'dray' has no attribute {name!r}")
    __import__(home)
    module: ModuleType = sys.modules[home]
    found: object = module if name in _PACKAGES else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})
