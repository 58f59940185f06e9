"""The other manager of a storage workload: it sends a stream, takes one, and confirms what it took.

It never fails. A frame to it counts as said only when the turn of that frame is durable. It never
forgets which messages it has accepted and confirmed; `Recording` has from when on.
"""

from __future__ import annotations

from random import Random

from dray.manager.events import LinkFrame, LinkSend, LinkUp, Peer
from dray.model.classes import MessageClass
from dray.testing.harness import ManagerHarness
from dray.testing.keyed_manager import KeyedManager
from dray.testing.promises import BrokenPromiseError
from dray.testing.storage_consequences import LARGE, ORDERS, OUTGOING, RECEIVED, Consequences
from dray.testing.storage_model import Contents
from dray.testing.storage_recording import Recording
from dray.testing.storage_records import Letters
from dray.wire import peer_frames
from dray.wire.head import Head
from dray.wire.stream import Frame

STREAM, SEQUENCE = 77, 1_700_000_000 << 32
REPEATS, CONFIRMS = 0.2, 0.5
"""The chances that it says something twice, and tells what became of a message."""


class StoragePeer:
    """Its part in one run of the manager."""

    def __init__(  # noqa: PLR0917 - it shares the harness of the workload
        self,
        rng: Random,
        harness: ManagerHarness,
        recording: Recording,
        contents: Contents,
        follow: Consequences,
    ) -> None:
        """Know what the recording says that it knows."""
        self._rng = rng
        self._harness = harness
        self._recording = recording
        self._contents = contents
        self._follow = follow
        self._session = 0
        self._question = 0
        """The last that was asked of the stream."""
        self._gathered: list[tuple[int, LinkSend]] = []
        self._released: list[LinkSend] = []

    def gather(self, turn: int) -> None:
        """The frames that the manager has decided to send wait for the end of a turn."""
        self._gathered += [(turn, each) for each in self._harness.sent]
        self._harness.sent.clear()

    def release(self, turn: int) -> None:
        """Everything up to a turn is durable: what was decided in it is said."""
        self._released += [each for at, each in self._gathered if at <= turn]
        self._gathered = [(at, each) for at, each in self._gathered if at > turn]

    def send(self, letters: Letters) -> None:
        """Send messages of a stream, now and then again those of before."""
        if not self._session:
            self._session, other = self._harness.source()
            self._harness.ask(self._session, other.proven(peer_frames.OpenStream(STREAM, LARGE)))
        _, upto = self._contents.accepted.get(STREAM, (SEQUENCE, 0))
        fresh = letters.arriving(upto, self._rng.randrange(1, 4))
        head = peer_frames.Data(STREAM, SEQUENCE, upto, fresh.envelopes)
        for _ in range(1 + (self._rng.random() < REPEATS)):
            state, _ = self._harness.ask(self._session, head, b"".join(fresh.records.values()))
            assert isinstance(state, peer_frames.StreamState)
            wanted = peer_frames.StreamState(
                STREAM, SEQUENCE, fresh.envelopes[-1].number, receipt=state.receipt
            )
            if state != wanted or not state.receipt:
                raise BrokenPromiseError(f"{state} was said of a stream, expected was {wanted}")
        self._contents.admit(LARGE, fresh.records)
        self._contents.accepted[STREAM] = (SEQUENCE, fresh.envelopes[-1].number)

    def take(self) -> None:
        """Accept some of what was sent to it."""
        for dial in self._harness.dialled:
            welcome = KeyedManager("b").welcome(self._harness.manager.hello(dial.peer))
            self._harness.handle(LinkUp(dial.peer))
            self._harness.handle(LinkFrame(dial.peer, _frame(welcome)))
        self._harness.dialled.clear()
        released, self._released = self._released, []
        for each in released:
            if isinstance(each.head, peer_frames.OpenStream):
                self._acknowledge(each, self._recording.known.peer)
            elif isinstance(each.head, peer_frames.Data):
                count = self._rng.randrange(1, len(each.head.envelopes) + 1)
                last = each.head.envelopes[count - 1]
                accepted = (each.head.sequence_id, last.number, last.lookup_id)
                self._acknowledge(each, max(accepted, self._recording.known.peer))

    def _acknowledge(self, sent: LinkSend, accepted: tuple[int, int, int]) -> None:
        self._recording.known.peer = accepted
        self._recording.note_peer()
        sequence_id, number, lookup_id = accepted
        head = sent.head
        assert isinstance(head, peer_frames.OpenStream | peer_frames.Data)
        if isinstance(head, peer_frames.OpenStream):
            self._question = head.question
        state = peer_frames.StreamState(head.stream, sequence_id, number, question=self._question)
        leaving = [key for _, at, key in self._contents.queues[OUTGOING] if at <= lookup_id]
        self._contents.remove(OUTGOING, leaving)
        self._follow.awaiting(leaving)
        self._harness.handle(LinkFrame(sent.peer, _frame(state)))
        if self._rng.random() < CONFIRMS:
            self._confirm(sent.peer, head.stream)

    def _confirm(self, address: Peer, stream: int) -> None:
        """Tell what became of some messages, and again of all before."""
        known = self._recording.known
        said = {number for number, _ in known.told}
        for _, _, (_, number) in self._contents.queues[ORDERS]:
            if number not in said and self._rng.random() < CONFIRMS:
                why = self._rng.choice((RECEIVED, MessageClass.NACK_RECEIVE_TIMEOUT))
                known.told.append((number, why))
                self._recording.told.append(len(self._recording.operations))
        told = [peer_frames.Confirmed(number, why) for number, why in known.told]
        if told:
            confirmations = peer_frames.Confirmations(stream, 1, told)
            self._harness.handle(LinkFrame(address, _frame(confirmations)))
            self._follow.confirmed()


def _frame(head: Head) -> Frame:
    return Frame(head, 0, memoryview(b""))
