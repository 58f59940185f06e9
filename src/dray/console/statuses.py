"""The status of HTTP that an error of Dray has: one table, for the console and for `/v1`."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from dray.errors import DrayError

STATUSES: Final[dict[str, int]] = {
    "error": 500,
    "misuse": 400,
    "invalid-argument": 400,
    "invalid-queue-name": 400,
    "queue-not-found": 404,
    "queue-exists": 409,
    "queue-recreated": 409,
    "batch-mismatch": 422,
    "transaction-usage": 409,
    "transaction-sequence": 409,
    "transaction-aborted": 409,
    "not-transactional": 409,
    "message-too-large": 413,
    "message-not-found": 404,
    "message-already-received": 409,
    "access-denied": 403,
    "large-message-mixing": 409,
    "status-queue-missing": 409,
    "invalid-configuration": 400,
    "source-unreadable": 500,
    "source-changed": 409,
    "file-refused": 400,
    "command-failed": 500,
    "java-missing": 500,
    "target-unwritable": 500,
    "illegal-cursor-action": 400,
    "wrong-process": 500,
    "quota-exceeded": 507,
    "receive-timeout": 504,
    "in-doubt": 504,
    "delivery-refused": 409,
    "delivery-timeout": 504,
    "store-error": 500,
    "store-locked": 503,
    "store-corrupt": 500,
    "store-poisoned": 503,
    "store-full": 507,
    "backup-damaged": 500,
    "store-moved": 503,
    "peer-error": 502,
    "connection-lost": 503,
    "protocol-error": 502,
    "address-in-use": 500,
    "transfer-timeout": 504,
    "transfer-cancelled": 409,
    "transfer-refused": 409,
    "transfer-source-changed": 409,
    "large-message-error": 500,
    "large-message-hole": 409,
    "large-message-corrupt": 500,
}
"""The status of each code of an error."""


def status_of(error: DrayError) -> HTTPStatus:
    """The status of an error; 500 for one that has no row."""
    return HTTPStatus(STATUSES.get(error.code, 500))
