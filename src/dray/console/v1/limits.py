"""Every bound of `/v1`, each with its reason. Sizes in bytes, times in seconds."""

from __future__ import annotations

from typing import Final

from dray.model.limits import KIB, MIB

PLAIN_BYTES_MAX: Final = 4_000_000
"""A longer body is sent as a large message: with its properties a plain one has 4 MiB at most."""
FRAGMENT_BYTES: Final = 4_000_000
"""Fragments of a large message that is streamed, the longest there are: three of them are in
memory, and each costs a turn of the server and of the queue manager."""
UPLOAD_FRAGMENT_BYTES: Final = 256 * KIB
"""Fragments of a resumable upload: the part of one that is not full yet waits in memory."""
UPLOAD_FRAGMENTS: Final = 100_000
"""A longer upload has longer fragments, up to 4,000,000 bytes, so that its commit stays small."""
UPLOAD_BYTES_MAX: Final = 4_000_000 * 1_000_000
"""4 TB: a transaction has 4,000,000 operations, and a commit of so many must fit the log."""
CHECKED_BYTES_MAX: Final = 256 * MIB
"""A PATCH with a checksum becomes durable as a whole, by one mark of at most 1,024 fragments."""
METADATA_BYTES_MAX: Final = 4 * KIB
"""`Upload-Metadata` is kept with the upload, whose source has 8 KiB."""
JSON_BYTES_MAX: Final = 64 * KIB
"""A request that describes a queue is some hundred bytes long."""
HEADERS_CHARACTERS_MAX: Final = 8_000
"""Properties of a message in an answer: some clients take 8 KiB of headers, and no more."""
KEY_CHARACTERS_MAX: Final = 200
"""An `Idempotency-Key`; a UUID has 36."""
TOKEN_CHARACTERS_MAX: Final = 512
"""A token has 43."""
WAIT_S_MAX: Final = 300.0
"""`?wait`: proxies cut a request that is silent for longer."""
LISTEN_S: Final = 5.0
"""A receive that waits for large messages looks for plain ones once in so long."""
LEASE_S: Final = 60.0
"""A lease or a transaction that nobody renews or reads ends after this time."""
LEASES_MAX: Final = 256
"""Open leases of one caller; each holds a transaction at the queue manager."""
TRANSACTIONS_MAX: Final = 64
"""Open transactions of one caller."""
ENDED_MAX: Final = 1_000
"""Ended leases of one caller that are remembered, for a request that is repeated."""
UPLOADS_AT_HAND_MAX: Final = 64
"""Uploads whose digest is at hand: each has the part of a fragment in memory. One that is not is
read back from the queue manager when it goes on."""
BODIES_MAX: Final = 8
"""Bodies of one caller on their way at a time: some 15 MB of memory each."""
WAITS_MAX: Final = 64
"""Waiting receives of one caller."""
SESSIONS_MAX: Final = 256
"""Callers with a connection to the queue manager at a time."""
SESSION_UNUSED_S: Final = 60.0
"""A caller's connection without a request, lease or transaction is closed after this time."""
SETTLE_S: Final = 5.0
"""A request that settles waits so long for the end of another that works with the same lease."""
