"""File transfers as programs hold them: the blocking face of `awaited.transfer`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dray.client.awaited.transfer import Incoming as AwaitedIncoming
from dray.client.awaited.transfer import Offer as AwaitedOffer
from dray.client.awaited.transfer import RunningTransfer as AwaitedRunning
from dray.client.blocking.face import Face, blocking
from dray.client.calls.public_calls import public
from dray.client.connections.threads import iterate

if TYPE_CHECKING:
    from dray.model.transfer import TransferStatus


@public(made_by="Manager.offer_file")
class Offer(Face[AwaitedOffer]):
    """A file that is offered. Iterate over it for its progress, or `wait` for its end."""

    @property
    def transfer_id(self) -> str:
        """Its id, by which it can be resumed."""
        return self.awaited.transfer_id

    @property
    def digest(self) -> bytes:
        """Of the file, 32 bytes."""
        return self.awaited.digest

    @property
    def digest_kind(self) -> str:
        """Which digest it is: "sha256" or "blake3"."""
        return self.awaited.digest_kind

    @property
    def status(self) -> TransferStatus:
        """How it stands as a whole."""
        return self.awaited.status

    @property
    def consumers(self) -> list[TransferStatus]:
        """How each of its consumers stands."""
        return self.awaited.consumers

    def __iter__(self) -> Iterator[TransferStatus]:
        """Give each change of a consumer, or of the whole while there is none, and the end."""
        return iterate(self.awaited.statuses())

    wait = blocking(AwaitedOffer.wait)
    suspend = blocking(AwaitedOffer.suspend)
    resume = blocking(AwaitedOffer.resume)
    cancel = blocking(AwaitedOffer.cancel)
    cancel_consumer = blocking(AwaitedOffer.cancel_consumer)
    close = blocking(AwaitedOffer.close)


@public(made_by="Manager.accept_file")
class Incoming(Face[AwaitedIncoming]):
    """A file that was accepted: what is known of it, and how to get it."""

    @property
    def transfer_id(self) -> str:
        """Its id, by which it can be resumed."""
        return self.awaited.transfer_id

    @property
    def label(self) -> str:
        """The name of the file at its producer."""
        return self.awaited.label

    @property
    def file_name(self) -> str:
        """The label as the name of a file."""
        return self.awaited.file_name

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.awaited.size

    @property
    def digest(self) -> bytes:
        """Of the file, 32 bytes."""
        return self.awaited.digest

    @property
    def digest_kind(self) -> str:
        """Which digest it is: "sha256" or "blake3"."""
        return self.awaited.digest_kind

    @property
    def path(self) -> Path | None:
        """Where it is being saved, if that was said before."""
        return self.awaited.path

    @property
    def status(self) -> TransferStatus:
        """How it stands."""
        return self.awaited.status

    def __iter__(self) -> Iterator[TransferStatus]:
        """Give each change, and the end; begins with `save_to`."""
        return iterate(self.awaited.statuses())

    save_to = blocking(AwaitedIncoming.save_to)
    suspend = blocking(AwaitedIncoming.suspend)
    resume = blocking(AwaitedIncoming.resume)
    cancel = blocking(AwaitedIncoming.cancel)
    close = blocking(AwaitedIncoming.close)


@public(made_by="Manager.running_transfer")
class RunningTransfer(Face[AwaitedRunning]):
    """A transfer that a program of this user runs, be it this one or another."""

    @property
    def status(self) -> TransferStatus:
        """How it stood when it was looked for."""
        return self.awaited.status

    suspend = blocking(AwaitedRunning.suspend)
    resume = blocking(AwaitedRunning.resume)
    cancel = blocking(AwaitedRunning.cancel)


def face_of_running(awaited: AwaitedRunning | None) -> RunningTransfer | None:
    """The blocking face of a transfer that runs, if it does."""
    return None if awaited is None else RunningTransfer(awaited)


def face_of_transfer(awaited: AwaitedOffer | AwaitedIncoming) -> Offer | Incoming:
    """The blocking face of either end."""
    return Offer(awaited) if isinstance(awaited, AwaitedOffer) else Incoming(awaited)
