"""Messages for storage workloads: plain and large ones of a client, and those of a peer's stream.

Every record that was ever made is kept in `Known.records`, so that whatever comes back later can be
held against what was sent.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

import crc32c
from msgspec.structs import replace

from dray.large.digests import DIGEST_KIND_DEFAULT, DIGESTS
from dray.large.split import LargeMessageParameters, PartMessage, Split
from dray.model.classes import Acknowledge
from dray.model.ids import ManagerId
from dray.model.message import Message
from dray.testing.harness import MANAGER_ID, PEER_ID
from dray.testing.storage_model import Key, Known
from dray.wire.message_frames import Envelope
from dray.wire.record import PLAIN, encode_record

PLAIN_BYTES_MAX: Final = 1500
FRAGMENT_BYTES: Final = 1500
ARRIVING_PARTS: Final = 4
"""Parts of each large message of the peer's stream: header, two fragments, trailer."""
MARK_FIRST, MARK_LAST = 1, 2
JOURNALED_SHARE, DEAD_LETTER_SHARE, ACKNOWLEDGED_SHARE = 0.1, 0.2, 0.1
EXPRESS_SHARE, TIMED_SHARE = 0.3, 0.2
"""Plain messages: how many ask for which, and how many expire soon."""
TIMES_TO_LIVE_S = (2.0, 5.0, 30.0)
ADMINISTRATION_QUEUE = "acknowledgments"

_EVERYTHING = Acknowledge.FULL_RECEIVE | Acknowledge.POSITIVE_ARRIVAL

Records = dict[Key, bytes]


class Arriving(NamedTuple):
    """Messages of a stream, as a Data frame carries them."""

    records: Records
    envelopes: list[Envelope]


class Letters:
    """Makes messages, each with a number that nobody had before."""

    def __init__(self, rng: Random, known: Known, first_number: int) -> None:
        """Number from `first_number` on, which was leased."""
        self._rng = rng
        self._known = known
        self._next = first_number

    def number(self) -> int:
        """The next number."""
        self._next += 1
        return self._next

    def plain(self, now: float | None = None) -> Records:
        """A few plain messages; some of those that are sent at a time have not long to live."""
        records: Records = {}
        for _ in range(self._rng.randrange(1, 4)):
            acknowledged = self._rng.random() < ACKNOWLEDGED_SHARE
            runs = self._rng.choice(TIMES_TO_LIVE_S)
            timed = now is not None and self._rng.random() < TIMED_SHARE
            message = Message(
                body=self._rng.randbytes(self._rng.randrange(PLAIN_BYTES_MAX)),
                label="plain",
                priority=self._rng.randrange(8),
                recoverable=self._rng.random() >= EXPRESS_SHARE,
                use_journal_queue=self._rng.random() < JOURNALED_SHARE,
                use_dead_letter_queue=self._rng.random() < DEAD_LETTER_SHARE,
                administration_queue=ADMINISTRATION_QUEUE if acknowledged else None,
                acknowledge=_EVERYTHING if acknowledged else Acknowledge.NONE,
                time_to_be_received=runs if timed else None,
            )
            made = self.one(message)
            records.update(made)
            if now is not None and timed:
                self._known.expires.update(dict.fromkeys(made, now + runs))
        return records

    def one(self, message: Message) -> Records:
        """One message, as it is."""
        number = self.number()
        record = _record(PartMessage(message, PLAIN), MANAGER_ID, number)
        self._known.records[MANAGER_ID, number] = record
        return {(MANAGER_ID, number): record}

    def large(self) -> Records:
        """One large message, all its parts."""
        bodies = [
            self._rng.randbytes(self._rng.randrange(1, FRAGMENT_BYTES))
            for _ in range(self._rng.randrange(1, 4))
        ]
        sequence = self.number()
        numbers = [sequence, *(self.number() for _ in range(len(bodies) + 1))]
        parts = _parts(MANAGER_ID, sequence, bodies)
        records = {
            (MANAGER_ID, number): _record(part, MANAGER_ID, number)
            for number, part in zip(numbers, parts, strict=True)
        }
        self._known.records.update(records)
        self._known.parts_of[MANAGER_ID, sequence] = list(records)
        return records

    def arriving(self, upto: int, count: int) -> Arriving:
        """The next messages of the peer's stream behind number `upto`; the same in every run."""
        records, envelopes = {}, []
        for number in range(upto + 1, upto + 1 + count):
            sequence = number - (number - 1) % ARRIVING_PARTS
            bodies = [
                Random(sequence).randbytes(1000),
                Random(sequence + 1).randbytes(FRAGMENT_BYTES),
            ]
            part = (number - 1) % ARRIVING_PARTS
            record = _record(_parts(PEER_ID, sequence, bodies)[part], PEER_ID, number)
            records[PEER_ID, number] = record
            marks = MARK_FIRST * (part == 0) | MARK_LAST * (part == ARRIVING_PARTS - 1)
            crc = crc32c.crc32c(record)
            times = 1_700_000_000_000_000
            envelope = Envelope(number, len(record), crc, sequence, times, times, marks)
            envelopes.append(replace(envelope, ordinal=part + 1, number=number))
            parts = range(sequence, sequence + ARRIVING_PARTS)
            self._known.parts_of[PEER_ID, sequence] = [(PEER_ID, each) for each in parts]
        self._known.records.update(records)
        return Arriving(records, envelopes)


def sizes_and_crcs(records: Records) -> tuple[list[int], list[int]]:
    """The sizes, then the checksums of records for a Send frame."""
    made = list(records.values())
    return [len(record) for record in made], [crc32c.crc32c(record) for record in made]


def _parts(manager: str, sequence: int, bodies: list[bytes]) -> list[PartMessage]:
    split = Split(
        Message(label="large", correlation_id=f"{sequence}"),
        ManagerId(manager),
        sequence,
        parameters=LargeMessageParameters(),
        fragment_size=FRAGMENT_BYTES,
    )
    header = split.header()
    fragments = [split.fragment(body) for body in bodies]
    digest = DIGESTS[DIGEST_KIND_DEFAULT]()
    digest.update(b"".join(bodies))
    return [header, *fragments, split.trailer(digest.digest())]


def _record(part: PartMessage, manager: str, number: int) -> bytes:
    head, body = encode_record(part.message, bytes.fromhex(manager), number, part.mark)
    return head + bytes(body)
