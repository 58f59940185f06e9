"""Errors of one large message."""

from __future__ import annotations

from dray.errors.root import DrayError


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
