"""Bytes of a packed entry: one message of a queue, kept in receiving order.

An entry is 79 bytes, so that a million queued messages take about a hundred megabytes, not a
gigabyte of objects. The first nine bytes are big-endian, so that entries sort by priority, then
position:

    | 7 - priority | lookup id | file | offset | length | crc | number | transaction |
    |      1       |     8     |  4   |   4    |   4    |  4  |   8    |      8      |
    | sent | arrived | expires | stream | ordinal | marks | class | kind | aborts | moves |
    |  8   |    8    |    8    |   4    |    4    |   1   |   2   |  1   |   1    |   1   |

    kind: part 2 bits, priority 3, then one each if the sender asked for dead letters, for the
    journal, for acknowledgments
    ordinal: place in its transaction 22 bits, then 10 of how many follow it there (1023: or more);
    with MARK_LARGE, of how many messages its transaction sent to the queue

The part behind the key (the *tail*, 70 bytes) is what facts carry: positions are given when a fact
is applied, and a replay gives the same ones.
"""

from __future__ import annotations

import struct

from dray.store.kinds import KIND_AT, Kind
from dray.wire.message_frames import FOLLOWING_MAX

KEY = struct.Struct(">BQ")
_TAIL_FORM = "IIIIQQQQQIIBHBBB"
TAIL = struct.Struct(f"<{_TAIL_FORM}")
KEY_BYTES = KEY.size
TAIL_BYTES = TAIL.size
ENTRY_BYTES = KEY_BYTES + TAIL_BYTES
TAIL_IN_ENTRY = struct.Struct(f"<{KEY_BYTES}x{_TAIL_FORM}")
HEAP_KIND_AT = 3
"""In a tail: the byte whose highest bits are the kind of the heap file."""
HEAP_KIND_SHIFT = KIND_AT - 8 * HEAP_KIND_AT
LENGTH = struct.Struct("<I")
LENGTH_AT = KEY_BYTES + 8
COUNTS = struct.Struct("BB")
COUNTS_AT = TAIL_BYTES - COUNTS.size
KIND_BYTE_AT = COUNTS_AT - 1
CLASS = struct.Struct("<H")
CLASS_AT = KIND_BYTE_AT - CLASS.size
EXPIRES = struct.Struct("<Q")
EXPIRES_AT = CLASS_AT - 1 - 2 * 4 - EXPIRES.size
NUMBER = struct.Struct("<Q")
NUMBER_AT = 16
COUNT_MAX = 255
PRIORITY_TOP = 7
TWO_BITS = 3
PRIORITY_AT = 2
THREE_BITS = 7
COPIES_AT = 5
ORDINAL_BITS = 22
ORDINAL_MAX = (1 << ORDINAL_BITS) - 1
EXPRESS = int(Kind.EXPRESS)
assert FOLLOWING_MAX == (1 << 32 - ORDINAL_BITS) - 1
