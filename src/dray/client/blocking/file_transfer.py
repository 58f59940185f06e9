"""The blocking face of `awaited.transfer`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from dray.client.awaited.transfer import Incoming as AwaitedIncoming
from dray.client.awaited.transfer import Offer as AwaitedOffer
from dray.client.awaited.transfer import RunningTransfer as AwaitedRunning
from dray.client.blocking.face import Face, blocking
from dray.client.calls.public_calls import public
from dray.client.connections.threads import iterate
from dray.model.transfer import TransferStatus

_End = TypeVar("_End", AwaitedOffer, AwaitedIncoming)


class _EndOfTransfer(Face[_End]):
    """The properties that both ends of a transfer have."""

    @property
    def transfer_id(self) -> str:
        """Id by which the transfer can be resumed."""
        return self.awaited.transfer_id

    @property
    def digest(self) -> bytes:
        """Digest of the file, 32 bytes."""
        return self.awaited.digest

    @property
    def digest_kind(self) -> str:
        """Kind of the digest: "sha256" or "blake3"."""
        return self.awaited.digest_kind


@public(made_by="Manager.offer_file")
class Offer(_EndOfTransfer[AwaitedOffer]):
    """An offered file. Iterate over it for its progress, or `wait` for its end."""

    @property
    def status(self) -> TransferStatus:
        """State of the offer as a whole."""
        return self.awaited.status

    @property
    def consumers(self) -> list[TransferStatus]:
        """State of each consumer."""
        return self.awaited.consumers

    def __iter__(self) -> Iterator[TransferStatus]:
        """Iterate over the changes of each consumer (of the offer if it has none) and the end."""
        return iterate(self.awaited.statuses())

    wait = blocking(AwaitedOffer.wait)
    suspend = blocking(AwaitedOffer.suspend)
    resume = blocking(AwaitedOffer.resume)
    cancel = blocking(AwaitedOffer.cancel)
    cancel_consumer = blocking(AwaitedOffer.cancel_consumer)
    close = blocking(AwaitedOffer.close)


@public(made_by="Manager.accept_file")
class Incoming(_EndOfTransfer[AwaitedIncoming]):
    """An accepted file: its properties, and how to save it."""

    @property
    def label(self) -> str:
        """Name of the file at its producer."""
        return self.awaited.label

    @property
    def file_name(self) -> str:
        """The label as a safe file name."""
        return self.awaited.file_name

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.awaited.size

    @property
    def path(self) -> Path | None:
        """Path to which it is being saved; None if that is not known yet."""
        return self.awaited.path

    @property
    def status(self) -> TransferStatus:
        """State of the transfer."""
        return self.awaited.status

    def __iter__(self) -> Iterator[TransferStatus]:
        """Iterate over the changes, and the end; begins with `save_to`."""
        return iterate(self.awaited.statuses())

    save_to = blocking(AwaitedIncoming.save_to)
    suspend = blocking(AwaitedIncoming.suspend)
    resume = blocking(AwaitedIncoming.resume)
    cancel = blocking(AwaitedIncoming.cancel)
    close = blocking(AwaitedIncoming.close)


@public(made_by="Manager.running_transfer")
class RunningTransfer(Face[AwaitedRunning]):
    """A transfer that a program of this user runs: this program or another."""

    @property
    def status(self) -> TransferStatus:
        """State of the transfer when it was looked up."""
        return self.awaited.status

    suspend = blocking(AwaitedRunning.suspend)
    resume = blocking(AwaitedRunning.resume)
    cancel = blocking(AwaitedRunning.cancel)
