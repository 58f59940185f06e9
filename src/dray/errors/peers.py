"""Errors of a connection, and of the process at its other end."""

from __future__ import annotations

from dray.errors.root import DrayError


class PeerError(DrayError):
    """The other end of a connection failed."""

    code = "peer-error"
    exit_status = 50
    retryable = True


class ConnectionLost(PeerError):
    """The connection could not be made, or it broke.

    One of these errors is not retryable if the call may have taken effect and a repeat could act
    twice.
    """

    code = "connection-lost"
    exit_status = 51


class ProtocolError(PeerError):
    """The other end sent bytes that are not a Dray frame, or a frame that is not allowed here."""

    code = "protocol-error"
    exit_status = 52
    retryable = False


class AddressInUse(PeerError):
    """Another process already listens on that address."""

    code = "address-in-use"
    exit_status = 53


class TransferTimeout(PeerError):
    """No consumer answered a file offer in time, or the other end of a transfer fell silent."""

    code = "transfer-timeout"
    exit_status = 54
    transfer_id: str


class TransferCancelled(PeerError):
    """One end cancelled the file transfer; it cannot be resumed."""

    code = "transfer-cancelled"
    exit_status = 55
    retryable = False
    transfer_id: str


class TransferRefused(PeerError):
    """The producer of the offered file already has a consumer, or accepts no more."""

    code = "transfer-refused"
    exit_status = 56
    retryable = False
    transfer_id: str
