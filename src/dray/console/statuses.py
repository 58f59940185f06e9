"""Which status of HTTP an error of Dray has: one table."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from dray.errors import (
    AccessDenied,
    ConnectionLost,
    DeliveryTimeout,
    DrayError,
    InDoubt,
    LargeMessageError,
    MessageAlreadyReceived,
    MessageNotFound,
    MessageTooLarge,
    Misuse,
    PeerError,
    QueueExists,
    QueueNotFound,
    QuotaExceeded,
    ReceiveTimeout,
    StoreError,
    StoreFull,
    TransactionAborted,
)

_STATUSES: Final[tuple[tuple[type[DrayError], HTTPStatus], ...]] = (
    (AccessDenied, HTTPStatus.FORBIDDEN),
    (QueueNotFound, HTTPStatus.NOT_FOUND),
    (MessageNotFound, HTTPStatus.NOT_FOUND),
    (MessageAlreadyReceived, HTTPStatus.GONE),
    (QueueExists, HTTPStatus.CONFLICT),
    (MessageTooLarge, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (QuotaExceeded, HTTPStatus.INSUFFICIENT_STORAGE),
    (StoreFull, HTTPStatus.INSUFFICIENT_STORAGE),
    (ReceiveTimeout, HTTPStatus.GATEWAY_TIMEOUT),
    (DeliveryTimeout, HTTPStatus.GATEWAY_TIMEOUT),
    (LargeMessageError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (TransactionAborted, HTTPStatus.CONFLICT),
    (InDoubt, HTTPStatus.BAD_GATEWAY),
    (ConnectionLost, HTTPStatus.BAD_GATEWAY),
    (PeerError, HTTPStatus.BAD_GATEWAY),
    (StoreError, HTTPStatus.SERVICE_UNAVAILABLE),
    (Misuse, HTTPStatus.BAD_REQUEST),
)
"""The first row that fits counts."""


def status_of(error: DrayError) -> HTTPStatus:
    """The status of an error; 500 for one that has no row."""
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            return status
    return HTTPStatus.INTERNAL_SERVER_ERROR
