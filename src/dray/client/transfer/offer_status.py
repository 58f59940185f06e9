"""The state of an offer, for its own program: that of each consumer and of the whole."""

from __future__ import annotations

import msgspec

from dray.client.transfer.board import Rate
from dray.client.transfer.state import Offered, status_of_offer
from dray.errors import DrayError, Misuse, TransferCancelled, TransferTimeout
from dray.model.transfer import TransferState, TransferStatus
from dray.transfer.copies import ConsumerCopy
from dray.transfer.producer import Producer


class OfferStatuses:
    """Makes the statuses of one offer, and measures the rate of each consumer meanwhile."""

    def __init__(self, kept: Offered) -> None:
        self._kept = kept
        self._rates: dict[str, Rate] = {}

    def of(
        self, core: Producer, state: TransferState
    ) -> tuple[TransferStatus, list[TransferStatus]]:
        """The status of the whole, which is that of the slowest consumer, and of each consumer."""
        kept = status_of_offer(self._kept)
        consumers = [self._status(kept, core, copy) for copy in core.copies.values()]
        left = [each for each in consumers if not each.state.final] or consumers
        slowest = min(left, key=lambda each: each.bytes_done, default=None)
        whole = msgspec.structs.replace(
            kept,
            state=state,
            bytes_done=0 if slowest is None else slowest.bytes_done,
            fragments_resent=sum(each.fragments_resent for each in consumers),
            rate_bytes_s=0.0 if slowest is None else slowest.rate_bytes_s,
            error="" if core.error is None else core.error.code,
        )
        return whole, consumers

    def _status(self, kept: TransferStatus, core: Producer, copy: ConsumerCopy) -> TransferStatus:
        done = core.terms.bytes_before(copy.window.base)
        rate = self._rates.setdefault(copy.key, Rate())
        return msgspec.structs.replace(
            kept,
            state=copy.state,
            consumer_id=copy.consumer_id,
            bytes_done=done,
            fragments_resent=copy.window.resent,
            rate_bytes_s=rate.of(done, moving=not copy.state.final),
            error="" if copy.error is None else copy.error.code,
        )


def error_of_offer(core: Producer, transfer_id: str, kept: Offered) -> DrayError | None:
    """The error of an offer that is over; None if it is done."""
    if core.error is not None:
        return core.error
    match core.state:
        case TransferState.TIMED_OUT:
            assert kept.request_timeout is not None
            return TransferTimeout(
                f"no consumer asked for {kept.path} within {kept.request_timeout:g} s; offer it"
                " again when there is a consumer",
                transfer_id=transfer_id,
            )
        case TransferState.CANCELLED:
            return TransferCancelled(
                f"the offer of {kept.path} was cancelled, here or by its consumer",
                transfer_id=transfer_id,
            )
        case TransferState.FAILED:
            errors = [copy.error for copy in core.copies.values() if copy.error is not None]
            return errors[0] if errors else None
    return None


def no_consumer(transfer_id: str, consumer_id: str) -> Misuse:
    """Say that an offer has no such consumer."""
    return Misuse(
        f"file transfer {transfer_id} has no consumer {consumer_id!r}; see `dray transfer list`"
    )
