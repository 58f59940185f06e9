"""Every bound of the store, and where it came from."""

from __future__ import annotations

from typing import Final

SECTOR_BYTES: Final = 512
"""A disk writes a sector whole or not at all. Log groups begin on a sector, so that a torn write
of one group can never damage its neighbour."""

HEAP_FILE_BYTES: Final = 4 << 20
"""One heap file (S3-10); a message never spans two, hence the limit of a plain message (S3-13)."""

BLOCK_BYTES: Final = 512
"""Unit of the maps: a sector, the smallest thing that a disk loses."""

EXPRESS_BYTES: Final = 64 << 20
"""Express messages kept in memory; beyond it the oldest are written to r files (S3-11)."""

HEAP_OPEN_FILES: Final = 4
"""Files that take new extents at once: enough that small messages find the tails that fragments
of 4,000,000 bytes leave, few enough that a commit has at most 16 MiB left to sync."""

HEAP_DESCRIPTORS: Final = 256
"""Descriptors kept for heap files; a quarter of the usual limit of 1,024 per process."""

HEAP_READERS: Final = 16
"""Descriptors for heap files that are only read, beside those: each connection that is sent a
message of many files reads one of them at a time, and opening one again takes microseconds."""

FLUSH_SHARE: Final = 4
"""An open heap file is worth an early sync when one part in this many (1 MiB) is not durable. Less
stays for the next commit: at most 8 MiB, in the open files of messages and journals."""

HEAP_HANDED_OUT: Final = 64
"""Files that may be with a worker for an early sync; the rest of the descriptors stay ours."""

WRITE_PIECE_BYTES: Final = 1 << 20
"""Payload is written in pieces of so much, and the disk begins with one while the next is written:
enough to keep it busy, few enough that asking costs nothing beside the writing."""

BEGIN_BYTES_MIN: Final = 256 << 10
"""Shorter payload is not begun with: asking costs about as much as the disk would get done before
the sync of its commit."""

HEAP_FREE_FILES: Final = 256
"""Empty files kept for recycling (1 GiB); more than that go back to the file system (R78), a few
at a time in quiet moments: each takes a millisecond or more."""

LOG_BYTES: Final = 64 << 20
"""QMLog, allocated whole when the store is made."""

LOG_BYTES_MIN: Final = 16 << 10
"""Below this the reserve would not hold a single opening group."""

LOG_RESERVE_SHARE: Final = 16
"""One part in this many is kept free of facts, for the opening groups of recoveries and seals."""

LOG_AHEAD_SHARE: Final = 16
"""On its first way through its file QMLog is written with zeros one part in this many ahead: a sync
of blocks that were only allocated also has to tell the file system that they are in use, and takes
twice as long (docs/decisions/0065)."""

LOG_AHEAD_BYTES_MAX: Final = 4 << 20
"""The commit that writes them takes some milliseconds. It is one in 2,700 of 1 KiB, and one in 36
of 100 KiB (docs/decisions/0312)."""

LOG_AHEAD_BYTES_MIN: Final = 4 << 10
"""In a small log at least a block of usual file systems: a shorter write gains nothing and would
be repeated with every group."""

ZEROS_PIECE_BYTES: Final = 64 << 10
"""They are written in pieces of so much, so that no commit has to get memory for all of them."""

ACCESS_LOG_BYTES_MAX: Final = 16 << 20
"""One file of the access log: some 50,000 lines, which an editor still opens."""

ACCESS_LINE_BYTES: Final = 1_000
"""A line with a long address and a long queue name; usual ones have 350 bytes."""

ACCESS_LOGS_MAX: Final = 9
"""Files of the access log, 144 MiB: a caller that does as much as it may fills them in 8 hours."""

COPIED_BYTES_MAX: Final = 256 << 10
"""A group has copies of its payload up to so many bytes, and then one file is synced for it instead
of two (docs/decisions/0295): two hundred messages of 1 KiB. The disk begins with longer payload as
it is placed (`BEGIN_BYTES_MIN`), so that its commit finds little of it left to do."""

COPIED_BYTES_LITTLE: Final = 16 << 10
"""The same while a checkpoint is long: longer copies would bring the next one nearer than it is
worth."""

CHECKPOINT_SHORT_BYTES: Final = 4 << 20
"""A shorter checkpoint is written in some milliseconds: of up to 50,000 messages."""

COPIED_LOG_SHARE: Final = 8
"""In a small log at most one part in this many: each group fills it, and so brings the next
checkpoint nearer."""

LOG_CHECKPOINT_SHARE: Final = 3
"""A checkpoint is due when one part in this many was written since the last. The log is kept back
to the older checkpoint, so two parts are in use and the third is for what arrives meanwhile."""

LOG_RETRY_SHARE: Final = 16
"""After a checkpoint that the full disk refused, the next is due one such part later."""

CHECKPOINT_BYTES: Final = 64 << 10
"""Size of a checkpoint file at first; a larger snapshot makes it grow."""

CHECKPOINT_AHEAD_SHARE: Final = 4
"""It grows by one part in so many at a time, before the state does."""

STATE_PER_FACTS: Final = 1.25
"""Bytes of state that a byte of facts can become: of a message 71 become 79."""

STATE_BESIDE_BYTES: Final = 16 << 10
"""Growth of the state before the next checkpoint from other changes, such as new queues."""

CHECKPOINT_BUFFER_BYTES: Final = 1 << 20
"""A snapshot is written in pieces of about this size, so it is never in memory twice."""

LOG_WINDOW_BYTES: Final = 256 << 10
"""Read-ahead while the log is followed: some hundred groups of usual size."""

LOG_SCAN_BYTES: Final = 1 << 20
"""Recovery looks through the log in pieces of this size."""
