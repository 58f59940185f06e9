"""`dray check`: every checksum and cross-reference of a stopped manager's data directory.

Nothing is changed and nothing is believed: the state is rebuilt as a start would rebuild it, then
each thing that it says is held against the files, and against everything else that it says.

    looked at                what must be so
    checkpoint pairs         each file there, and whole or never written
    QMLog                    followed to its end; what a start would refuse is told as it tells it
    every live record        within its file, apart from all others; CRC32C; its own header agrees
    queues                   positions below the next one; bytes and accounts add up
    streams                  numbers in order, nothing in the queue that was acknowledged
    large messages           parts counted; of whole ones the digest of the body
    files of queues          there, readable, and as the state says
    audit                    an unbroken chain

Damage makes the check fail; other findings are notes. For a damaged record the check names the
message, and says what the manager would do with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import crc32c
import msgspec

from dray.errors import DrayError, ProtocolError, StoreCorrupt
from dray.large.digests import DIGESTS
from dray.large.join import Assembly
from dray.large.split import read_control
from dray.manager.change import QUARANTINE_NAME
from dray.manager.entries import Entry, unpack
from dray.manager.queue import Account, StoredQueue, find_parts
from dray.manager.state import State
from dray.model.backup import Told, unheard
from dray.model.ids import ManagerId, join_id
from dray.offline.checking_files import (
    CheckReport,
    check_audit,
    check_checkpoints,
    check_queue_files,
)
from dray.offline.stopped import Offline
from dray.store.decisions import LOG_NAME
from dray.store.disk import MESSAGE_FILE_UNREADABLE
from dray.store.heap.heap import Extent, file_name, numbers_of
from dray.wire.record import HEADER_BYTES, RecordHeader, read_header

_HEX_DIGITS: Final = 32


class _Claim(NamedTuple):
    """Some bytes of a heap file that the state says are a record, and of which message."""

    extent: Extent
    crc: int
    queue: str
    entry: Entry | None


def check_store(path: str | Path, told: Told = unheard) -> CheckReport:
    """Check the data directory of a stopped manager.

    `told` hears how many bytes of records are done, of how many. Raises StoreLocked if the manager
    runs, StoreError if there is none; damage is told in the report.
    """
    with Offline(path) as offline:
        report = CheckReport(directory=str(path))
        try:
            check_checkpoints(offline.disk, report)
            state = offline.load()
        except StoreCorrupt as error:
            _tell_refusal(error, report)
            return report
        report.manager_id = state.manager_id
        for sentence in offline.doubts:
            report.doubt(LOG_NAME, sentence, remedy="a start cuts it off")
        if offline.refusal is not None:
            _tell_refusal(offline.refusal, report)
        _check_second_ways(offline, report)
        _check_queues(state, report)
        _check_streams(state, report)
        damaged = _Records(offline, report, told).check()
        _check_large(offline, report, damaged)
        check_queue_files(offline, report)
        check_audit(Path(path), report)
        report.groups, report.queues = offline.chain.groups, len(state.queues)
        return report


def _tell_refusal(error: StoreCorrupt, report: CheckReport) -> None:
    report.damage(str(error.fields.get("file", LOG_NAME)), str(error), remedy="a start refuses")


def _check_second_ways(offline: Offline, report: CheckReport) -> None:
    """Files that a start does not need if all others are whole."""
    for each in offline.disagreements:
        report.damage(each.map_name, str(each))
    for name in offline.unused_maps:
        remedy = "it is not needed; the checkpoint after next writes it anew"
        report.damage(name, "its header is gone, or its checksum does not fit", remedy=remedy)
    if offline.log_breaks_at is not None:
        report.damage(
            LOG_NAME,
            f"the group at byte {offline.log_breaks_at} is damaged, before the newest checkpoint",
            remedy="it is needed only if that one is lost, and not after two more checkpoints",
        )


class _Records:
    """The walk over all records, in the order in which they lie on the disk."""

    def __init__(self, offline: Offline, report: CheckReport, told: Told) -> None:
        self._offline = offline
        self._report = report
        self._told = told
        self._buffer = bytearray()
        self._damaged: set[tuple[str, int]] = set()

    def check(self) -> set[tuple[str, int]]:
        """Check them; give queue and position of the damaged ones."""
        claims = sorted(self._claims(), key=lambda claim: claim.extent)
        total = sum(claim.extent.length for claim in claims)
        done, before = 0, Extent(0, 0, 0)
        for claim in claims:
            self._one(claim, before)
            before = claim.extent
            done += claim.extent.length
            self._told(done, total)
        self._report.messages, self._report.record_bytes = len(claims), done
        used = {claim.extent.file for claim in claims}
        self._report.heap_files = len(used)
        self._check_sizes(claims)
        free = [n for n in numbers_of(self._offline.disk.names()) if n not in used]
        self._report.free_heap_files = len(free)
        return self._damaged

    def _check_sizes(self, claims: list[_Claim]) -> None:
        """Message files that are shorter than they were made, and lost nothing but free room."""
        made = self._offline.chain.heap_file_bytes
        ends = {claim.extent.file: claim.extent.offset + claim.extent.length for claim in claims}
        for number in numbers_of(self._offline.disk.names()):
            size, end = self._offline.heap.file(number).size(), ends.get(number, 0)
            if not end <= size < made:
                continue
            sentence = (
                f"it has {size} bytes and was made with {made}; the missing part held nothing"
            )
            if end:
                remedy = "its messages can be used"
                self._report.damage(file_name(number), sentence, remedy=remedy)
            else:
                # A power failure while it is made can leave its name without its size.
                remedy = "it is empty, and its next use makes it long enough"
                self._report.doubt(file_name(number), sentence, remedy=remedy)

    def _claims(self) -> Iterator[_Claim]:
        state = self._offline.state
        seen = 0
        for queue in state.queues:
            for packed in queue.index.everything():
                entry = unpack(packed)
                seen += 1
                yield _Claim(entry.extent, entry.crc, queue.name, entry)
        for number, (extent, crc) in enumerate(state.live()):
            if number >= seen:
                yield _Claim(extent, crc, "a prepared transaction", None)

    def _one(self, claim: _Claim, before: Extent) -> None:
        extent = claim.extent
        name = file_name(extent.file)
        if before.file == extent.file and before.offset + before.length > extent.offset:
            self._tell(claim, None, f"it overlaps the record at byte {before.offset} of {name}")
            return
        try:
            image = self._read(extent)
        except StoreCorrupt as error:
            self._tell(claim, None, str(error))
            return
        header = _header_of(image)
        if crc32c.crc32c(image) != claim.crc:
            self._tell(claim, header, "its CRC32C does not fit")
        elif header is None:
            self._tell(claim, None, "it does not begin like a record")
        elif claim.entry is not None:
            wrong = _disagreement(claim.entry, header)
            if wrong:
                self._tell(claim, header, wrong)

    def _read(self, extent: Extent) -> memoryview:
        if len(self._buffer) < extent.length:
            self._buffer = bytearray(extent.length)
        view = memoryview(self._buffer)[: extent.length]
        if self._offline.heap.read_into(view, extent.file, extent.offset) != extent.length:
            sentence = "the file ends before its bytes do"
            raise StoreCorrupt(sentence, event=MESSAGE_FILE_UNREADABLE, file=file_name(extent.file))
        return view

    def _tell(self, claim: _Claim, header: RecordHeader | None, wrong: str) -> None:
        name, at = file_name(claim.extent.file), claim.extent.offset
        entry = claim.entry
        if entry is None:
            sentence = f"the record at byte {at}, of {claim.queue}, cannot be used: {wrong}"
            self._report.damage(name, sentence, queue=claim.queue)
            return
        if claim.queue == QUARANTINE_NAME:
            self._report.note(name, f"in quarantine: {wrong}", claim.queue)
            return
        self._damaged.add((claim.queue, entry.lookup_id))
        intact = header is not None and header.number == entry.number
        source = header.source.hex() if header is not None and intact else "?" * _HEX_DIGITS
        self._report.damage(
            name,
            f"the record at byte {at}, {claim.extent.length} bytes long, cannot be used: {wrong}",
            queue=claim.queue,
            lookup_id=entry.lookup_id,
            message_id=join_id(ManagerId(source), entry.number),
            remedy="bring the file back; a start without it puts the message into quarantine"
            if claim.extent in self._offline.aside
            else "a receive that meets it moves the message to the quarantine queue",
        )


def _header_of(image: memoryview) -> RecordHeader | None:
    if len(image) < HEADER_BYTES:
        return None
    try:
        return read_header(image)
    except ProtocolError:
        # A record that cannot be read is what is looked for, not a failure of the check.
        return None


def _disagreement(entry: Entry, header: RecordHeader) -> str:
    if header.record_bytes != entry.length:
        return f"it says it has {header.record_bytes} bytes and the log says {entry.length}"
    if header.number != entry.number:
        return f"it says it is message {header.number} and the log says {entry.number}"
    if header.part != entry.part:
        return f"it says it is part {header.part} and the log says {entry.part}"
    return ""


def _check_queues(state: State, report: CheckReport) -> None:
    stored: dict[Account, int] = dict.fromkeys(state.ledger.stored, 0)
    for queue in state.queues:
        entries = [unpack(packed) for packed in queue.index.everything()]
        size = sum(entry.length for entry in entries)
        stored[queue.account] += size
        if size != queue.index.byte_count:
            sentence = f"it counts {queue.index.byte_count} bytes and holds {size}"
            report.damage(LOG_NAME, sentence, queue=queue.name)
        positions = {entry.lookup_id for entry in entries}
        if len(positions) != len(entries):
            report.damage(LOG_NAME, "two messages have one position", queue=queue.name)
        if positions and not 0 < min(positions) <= max(positions) < queue.next_lookup_id:
            sentence = f"a position is not below the next one, {queue.next_lookup_id}"
            report.damage(LOG_NAME, sentence, queue=queue.name)
        quota = queue.quota
        if quota is not None and size > quota:
            report.note(LOG_NAME, f"it holds {size} bytes, its quota is {quota}", queue.name)
    for account, size in stored.items():
        if size != state.ledger.stored[account]:
            sentence = f"account {account.value} counts {state.ledger.stored[account]} of {size}"
            report.damage(LOG_NAME, sentence)


def _check_streams(state: State, report: CheckReport) -> None:
    for queue in state.queues:
        stream = queue.stream
        if stream is None:
            continue
        first = queue.index.first()
        if not stream.base <= stream.last < max(queue.next_lookup_id, 1):
            sentence = f"its stream has numbers up to {stream.last} from base {stream.base}"
            report.damage(LOG_NAME, sentence, queue=queue.name)
        if first is not None and unpack(first).lookup_id <= stream.floor:
            sentence = f"it still has messages that were acknowledged, up to {stream.floor}"
            report.damage(LOG_NAME, sentence, queue=queue.name)
    for incoming in state.incoming.state():
        if not incoming.sequence_id or not incoming.number:
            sentence = f"stream {incoming.stream} of {incoming.source} was accepted up to nothing"
            report.damage(LOG_NAME, sentence)


def _check_large(offline: Offline, report: CheckReport, damaged: set[tuple[str, int]]) -> None:
    for queue in offline.state.queues:
        if queue.stream is not None or any(name == queue.name for name, _ in damaged):
            continue
        find_parts(offline.heap, queue, offline.state.arrival_routes)
        for assembly in queue.parts:
            key = join_id(ManagerId(assembly.key.source.hex()), assembly.key.sequence)
            missing = assembly.missing()
            if missing:
                state = "has holes" if assembly.decided else "is in flight"
                report.note(LOG_NAME, f"large message {key} {state}: {missing}", queue.name)
            elif not _digest_fits(offline, queue, assembly):
                # Its records are as they were sent, so it was sent so; the receiver will refuse it.
                sentence = f"the body of large message {key} does not fit its trailer"
                report.note(LOG_NAME, sentence, queue.name)
            else:
                report.large_messages += 1


def _digest_fits(offline: Offline, queue: StoredQueue, assembly: Assembly) -> bool:
    try:
        control = read_control(_body(offline, queue, assembly.trailer))
    except (DrayError, msgspec.MsgspecError):
        # A trailer that cannot be read fits nothing.
        return False
    digest, size = DIGESTS[control.digest_kind](), 0
    for lookup_id in assembly.fragments:
        body = _body(offline, queue, lookup_id)
        digest.update(body)
        size += len(body)
    return control.digest == digest.digest() and control.size == size


def _body(offline: Offline, queue: StoredQueue, lookup_id: int) -> memoryview:
    packed = queue.index.find(lookup_id)
    assert packed is not None, "the assembly was made of what is in the queue"
    record = offline.heap.read(unpack(packed).extent)
    return memoryview(record)[len(record) - read_header(record).body_bytes :]
