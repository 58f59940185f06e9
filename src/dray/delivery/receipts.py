"""Receipts: how far a destination's store had come when it said something that counts.

A destination encloses a receipt with every order ack and with all confirmations. The source keeps
the last one of each stream and states it when it opens the stream again. So a destination learns
from its own words whether its store was put back since.

    bytes     0-15           16-23          24-31                 32-39           40-55
              manager's id   incarnation    facts the store held  last restore    seal

Numbers are big-endian; the last restore is in microseconds since 1970, 0 if there was none. The
seal is a keyed hash with the private key of the store, so only the store and its copies can make
one: no peer can make a manager believe that it was put back. These bytes can never change.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from hmac import compare_digest
from typing import Final, NamedTuple

from dray.delivery.keys import ManagerKey
from dray.delivery.lineage import began_before
from dray.model.ids import Incarnation
from dray.model.limits import RECEIPT_BYTES

_ID_BYTES: Final = 16
_SAID = struct.Struct(">16sQQQ")
_SEAL_BYTES: Final = RECEIPT_BYTES - _SAID.size
_AGE_AT: Final = 24
"""The offset at which the number of facts begins."""


class Receipt(NamedTuple):
    """The number of facts that a store held in an incarnation, and its last restore."""

    incarnation: int
    age: int
    restored_us: int


class Told(enum.Enum):
    """The writer of a receipt."""

    BY_THIS_STORE = enum.auto()
    BY_ANOTHER_COPY = enum.auto()
    """A later state of this store, which was put back since, or a copy of it."""
    UNKNOWN = enum.auto()
    """Another manager, nobody, or this store so long ago that it does not remember."""


def write_receipt(key: ManagerKey, receipt: Receipt) -> bytes:
    """Write and seal one."""
    said = _SAID.pack(bytes.fromhex(key.id), *receipt)
    return said + key.seal(said)[:_SEAL_BYTES]


def read_receipt(key: ManagerKey, written: bytes) -> Receipt | None:
    """Read one that this store or a copy of it has written; None of any other."""
    if len(written) != RECEIPT_BYTES:
        return None
    said, seal = written[: _SAID.size], written[_SAID.size :]
    if not compare_digest(seal, key.seal(said)[:_SEAL_BYTES]):
        return None
    return Receipt(*_SAID.unpack(said)[1:])


def judge_receipt(receipt: Receipt | None, ours: Sequence[Incarnation], age: int) -> Told:
    """Tell whether this store, which holds `age` facts, once stood where a receipt was written."""
    if receipt is None or not ours:
        return Told.UNKNOWN
    numbers = [each.number for each in ours]
    if receipt.incarnation not in numbers:
        old = began_before(receipt.incarnation, ours[0])
        return Told.UNKNOWN if old else Told.BY_ANOTHER_COPY
    later = ours[numbers.index(receipt.incarnation) + 1 :]
    # The next incarnation began with all the facts that this store has of that one.
    held = later[0].age if later else age
    return Told.BY_THIS_STORE if receipt.age <= held else Told.BY_ANOTHER_COPY


def later_of(kept: bytes, came: bytes) -> bytes:
    """The receipt to keep; an order ack that had to wait brings one that is older than the kept."""
    if not came:
        return kept
    same = kept[:_AGE_AT] == came[:_AGE_AT]
    return max(kept, came) if same else came


def writer_of(written: bytes) -> str:
    """The id of the manager that a receipt names; empty without one."""
    return written[:_ID_BYTES].hex()
