"""Dray: a transactional message queue for large payloads, with Spark at both ends.

`open` runs a queue manager in this process, `connect` reaches one elsewhere; both give a manager
with queues and transactions. `LargeMessageQueue` sends and receives payloads of any size.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dray.client.awaited.receiver import Fate, Handled
from dray.client.blocking.file_transfer import Incoming, Offer, RunningTransfer
from dray.client.blocking.large import LargeMessageQueue
from dray.client.blocking.large_message import LargeMessage
from dray.client.blocking.manager import Manager, connect
from dray.client.blocking.queue import Cursor, Queue
from dray.client.blocking.receiver import Receiver
from dray.client.blocking.transaction import Transaction
from dray.client.calls.messages import ReceivedTransaction
from dray.client.calls.public_calls import checked
from dray.errors import (
    AccessDenied,
    AddressInUse,
    BackupDamaged,
    BatchMismatch,
    ConnectionLost,
    DrayError,
    IllegalCursorAction,
    InDoubt,
    InvalidArgument,
    InvalidConfiguration,
    InvalidQueueName,
    JavaMissing,
    LargeMessageCorrupt,
    LargeMessageError,
    LargeMessageHole,
    LargeMessageMixing,
    MessageAlreadyReceived,
    MessageNotFound,
    MessageTooLarge,
    Misuse,
    NotTransactional,
    PeerError,
    ProtocolError,
    QueueExists,
    QueueNotFound,
    QueueRecreated,
    QuotaExceeded,
    ReceiveTimeout,
    SourceChanged,
    SourceUnreadable,
    StatusQueueMissing,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreMoved,
    StorePoisoned,
    TargetUnwritable,
    TransactionAborted,
    TransactionSequence,
    TransactionUsage,
    TransferCancelled,
    TransferRefused,
    TransferSourceChanged,
    TransferTimeout,
    WrongProcess,
)
from dray.large.split import LargeMessageParameters
from dray.model.classes import Acknowledge, MessageClass, TransactionStatus
from dray.model.files import FileProperties
from dray.model.message import Message
from dray.model.queue import ManagerInfo, PeerInfo, QueueInfo
from dray.model.queued import QueuedMessage, Wholeness
from dray.model.transfer import TransferState, TransferStatus

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType
    from typing import Any, BinaryIO

    from dray.model.backup import BackupReport

__version__ = "0.1.0"

__all__ = [
    "AccessDenied",
    "Acknowledge",
    "AddressInUse",
    "BackupDamaged",
    "BatchMismatch",
    "ConnectionLost",
    "Cursor",
    "DrayError",
    "Fate",
    "FileProperties",
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


@checked
def open(  # noqa: A001 - the name of the public face; `dray.open` reads as what it does
    path: str | Path,
    *,
    quota: int | str | None = "8GiB",
    journal_quota: int | str | None = "8GiB",
    name: str | None = None,
    listen: str | None = None,
    **config: Any,  # noqa: ANN401 - each option of the daemon has its own type
) -> Manager:
    """Run a queue manager in this process over a data directory; closing it stops it cleanly.

    Sizes are bytes or text such as "8GiB", None is no limit. With `socket="path"` or
    `listen="host:port"` others can connect, too. Raises `StoreLocked` if the directory belongs to a
    live process, `InvalidConfiguration` for an option that is none.
    """
    from dray.embedded import open_embedded

    return open_embedded(
        path, quota=quota, journal_quota=journal_quota, name=name, listen=listen, **config
    )


@checked
def restore(
    archive: str | Path | BinaryIO,
    path: str | Path,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> BackupReport:
    """Make a data directory at `path`, missing or empty, from what `Manager.backup` wrote.

    Queues, messages and ids are what they were; delivery goes on exactly once. `progress` hears
    bytes done and bytes in all. Raises `BackupDamaged`, and then there is nothing at `path`.
    """
    from dray.embedded import restore_here

    return restore_here(archive, path, progress)


def __getattr__(name: str) -> ModuleType:
    """`dray.aio`, loaded when it is asked for."""
    if name == "aio":
        return importlib.import_module("dray.aio")
    raise AttributeError(f"module 'dray' has no attribute {name!r}")
