"""What the clients of large messages do in the crash matrices, as frames, and what they write down.

An act is written as its client would be: it may be cut off anywhere and is then run again, by a
client that knows only what the one before could have noted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dray import errors
from dray.model.classes import Part
from dray.model.message import Message
from dray.wire import large_frames, message_frames, selections
from dray.wire.record import HEADER_BYTES, PartMark, read_header
from tests.unit.manager.conftest import Caller, ManagerDriver

BODY = [b"one", b"two", b"three"]


@dataclass
class Notes:
    """What clients have written down, and what they have seen."""

    queue: str = "heavy"
    """As the sender names it; the receiver's is `heavy`."""
    kept: bool = False
    """Whether the sender asks for dead letters."""
    repair: bool = False
    """Whether the receiver wants holes to be filled."""
    sent: str = ""
    taken: list[str] = field(default_factory=list)
    delivered: list[list[bytes]] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)


def _part(caller: Caller, notes: Notes, number: int, sequence: int) -> None:
    """Send part 0 (header) to 4 (trailer) in the transaction whose number is the header's."""
    kind = {0: Part.HEADER, 4: Part.TRAILER}.get(number, Part.FRAGMENT)
    mark = PartMark(kind, 0 if kind is Part.HEADER else sequence, 3 * (number > 3))
    body = BODY[number - 1] if kind is Part.FRAGMENT else b""
    caller.next_number = sequence - 1 if kind is Part.HEADER else sequence + 100 + number
    message = Message(
        body=body,
        app_specific=number,
        use_dead_letter_queue=notes.kept,
        destination=notes.queue,
    )
    caller.send(
        caller.open(notes.queue), message, transaction=sequence, marks=(mark,), guarded=False
    )


def send(driver: ManagerDriver, notes: Notes) -> None:
    """Send in one transaction; who comes again asks what became of the one before."""
    caller = driver.session()
    if notes.sent:
        outcome = caller.call(message_frames.Outcome(notes.sent))
        if outcome.status == "committed":
            return
    sequence = caller.number_for()
    notes.sent = f"{driver.manager_id}\\{sequence}"
    for number in range(5):
        _part(caller, notes, number, sequence)
    caller.commit(sequence, 5)


def upload(driver: ManagerDriver, notes: Notes) -> None:
    """Send so that it can be gone on with, marked after each fragment."""
    caller, done = driver.session(), 0
    if notes.sent:
        state = caller.call(large_frames.UploadResume(notes.sent))
        if state.status == "committed":
            return
        done = state.parts
        sequence = int(notes.sent.split("\\")[1])
    if not notes.sent or state.status == "aborted":
        sequence, done = caller.number_for(), 0
        notes.sent = f"{driver.manager_id}\\{sequence}"
        caller.call(large_frames.UploadBegin(caller.open(notes.queue), sequence, 5_000, b""))
    sends = 0
    if not done:
        _part(caller, notes, 0, sequence)
        sends, done = 1, 1
    for number in range(done, 4):
        _part(caller, notes, number, sequence)
        sends += 1
        caller.ask(large_frames.UploadMark(sequence, number + 1, number, b""))
    _part(caller, notes, 4, sequence)
    caller.commit(sequence, sends + 1)


def receive(driver: ManagerDriver, notes: Notes) -> None:
    """Take everything; a take counts when its commit is known to have happened."""
    caller = driver.session()
    heavy, statusq = caller.open("heavy"), caller.open("statusq")
    while True:
        number = caller.number_for()
        head = large_frames.LargeReceive(
            heavy, number, 0.0, status_queue=statusq, repair=notes.repair
        )
        try:
            found = caller.call(head)
        except errors.ReceiveTimeout:
            return
        except errors.LargeMessageHole as hole:
            notes.holes.append(hole.sequence_id)
            _reject(caller, hole)
            continue
        reads = [
            large_frames.ReadPart(heavy, each.lookup_id, 0, each.length) for each in found.parts
        ]
        notes.delivered.append([_body_of(caller.call_whole(read)[1]) for read in reads])
        notes.taken.append(f"{driver.manager_id}\\{number}")
        caller.commit(number, 0)


def _body_of(record: bytes) -> bytes:
    header = read_header(record)
    return record[HEADER_BYTES + header.properties_bytes :]


def _reject(caller: Caller, hole: errors.LargeMessageHole) -> None:
    number = caller.number_for()
    head = large_frames.LargeReceive(
        caller.open("heavy"),
        number,
        0.0,
        selections.SelectBySequence(hole.sequence_id),
        status_queue=caller.open("statusq"),
        reject=True,
    )
    caller.call(head)
    caller.commit(number, 0)


def committed(driver: ManagerDriver, ids: list[str]) -> int:
    """How many of the transactions were committed."""
    caller = driver.session()
    return sum(caller.call(message_frames.Outcome(id)).status == "committed" for id in ids)
