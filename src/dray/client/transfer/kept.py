"""The stored transfers of a queue manager, as programs ask for them."""

from __future__ import annotations

from pathlib import Path

import msgspec

from dray.client.transfer.accepting import fragments_there
from dray.client.transfer.state import (
    IN,
    is_run,
    kept_incoming,
    kept_offers,
    status_of_incoming,
    status_of_offer,
)
from dray.model.transfer import TransferState, TransferStatus


def kept_in(folder: Path) -> list[tuple[TransferStatus, str]]:
    """The stored transfers, offers first, and their file names."""
    found = [(status_of_offer(kept), kept.reference.transfer) for kept in kept_offers(folder)]
    found += [
        (status_of_incoming(kept, fragments_there(kept)), kept.key)
        for kept in kept_incoming(folder)
        if not kept.verified
    ]
    return found


def unfinished(folder: Path) -> list[TransferStatus]:
    """The stored transfers; one that no program runs counts as suspended."""
    return [
        status
        if status.state.final or is_run(folder, name, status.direction)
        else msgspec.structs.replace(status, state=TransferState.SUSPENDED)
        for status, name in kept_in(folder)
    ]


def taken_and_at_rest(folder: Path) -> set[str]:
    """Transfers to one that was taken here and is not being received: nobody waits for them."""
    return {
        kept.reference.transfer
        for kept in kept_incoming(folder)
        if kept.reference.consumers == "one" and not is_run(folder, kept.key, IN)
    }
