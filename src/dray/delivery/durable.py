"""The durable half of an outgoing stream: changed by facts alone, now and in replay.

Sequence id, base, the last admitted and the last acknowledged lookup id. A message's number is its
lookup id less the base, so it cannot differ after a restart. A sequence begins when a message is
admitted while none is unacknowledged; its id is above every earlier one and at least the time of
day. Beside them stands what judges a peer's position (`judgement.py`): a mark for each incarnation
of the store, the position that a peer has acknowledged, and whether the stream has diverged. The
receipt tells which manager that was, and how far its store had come (`receipts.py`).
"""

from __future__ import annotations

from dray.delivery.events import StreamSnapshot
from dray.delivery.judgement import NOWHERE, IncarnationMark, PeerPosition
from dray.delivery.lineage import INCARNATIONS_KEPT
from dray.delivery.receipts import later_of, writer_of
from dray.delivery.sequences import next_sequence_id


class DurableStream:
    """The state of an outgoing stream that survives a crash."""

    def __init__(self, stream: int, queue: str) -> None:
        """Begin a stream that never carried anything; `stream` is the outgoing queue's number."""
        self.stream = stream
        self.queue = queue
        self.sequence_id = self.base = self.last = self.floor = 0
        self.heard = 0, 0
        """The highest position that a peer has acknowledged: sequence id and number."""
        self.heard_by = ""
        """The manager that has acknowledged that position; empty if nobody knows."""
        self.receipt = b""
        """The last receipt of the manager that has acknowledged or confirmed messages."""
        self.marks: list[IncarnationMark] = []
        self.judged = NOWHERE
        """The peer's position after which the present sequence was begun anew."""
        self.divergence: tuple[int, int] | None = None
        self.anew = False
        """Whether the next sequence begins with all that is left, whatever the peer says."""
        self.untaken = 0
        """The number of the last positions that are admitted and reserved, and not taken yet."""

    def restore(self, state: StreamSnapshot) -> None:
        """Go on from a checkpoint."""
        self.sequence_id, self.base = state.sequence_id, state.base
        self.last, self.floor = state.last, state.acknowledged
        self.heard, self.marks, self.judged = state.heard, list(state.marks), state.judged
        self.divergence, self.anew = state.divergence, state.anew
        self.receipt, self.heard_by = state.receipt, state.heard_by

    def state(self) -> StreamSnapshot:
        """Write it down for a checkpoint."""
        return StreamSnapshot(
            self.stream,
            self.queue,
            self.sequence_id,
            self.base,
            self.last,
            self.floor,
            self.heard,
            list(self.marks),
            self.judged,
            self.divergence,
            self.anew,
            self.receipt,
            self.heard_by,
        )

    def admitted(self, first: int, last: int, when_us: int) -> None:
        """Apply the fact that messages `first` to `last` joined the queue, at a time of day."""
        assert self.last < first <= last, f"{first}..{last} joined after {self.last}"
        if self.floor >= self.last:
            self.sequence_id = next_sequence_id(self.sequence_id, when_us // 1_000_000)
            self.base = self.floor = first - 1
        self.last, self.untaken = last, 0

    def acknowledged(self, upto: int, receipt: bytes = b"") -> None:
        """Apply the fact that all messages up to a lookup id are delivered and gone."""
        assert upto <= self.last, f"{upto} acknowledged, only {self.last} ever admitted"
        if upto > max(self.floor, self.base):
            self.heard = self.sequence_id, upto - self.base
            self.heard_by = writer_of(receipt)
        self.heard_from(receipt)
        self.floor = max(self.floor, upto)

    def heard_from(self, receipt: bytes) -> None:
        """Apply the fact that an order ack or confirmations came with a receipt."""
        self.receipt = later_of(self.receipt, receipt)

    def receipt_of(self, manager_id: str) -> bytes:
        """The receipt that a manager has written, if no other one has written a later one."""
        return self.receipt if writer_of(self.receipt) == manager_id else b""

    def incarnation_began(self, incarnation: int) -> None:
        """Apply the fact of a new incarnation of the store: mark how far the stream has come."""
        mark = IncarnationMark(incarnation, self.last, self.sequence_id, self.base)
        if self.last and (not self.marks or self.marks[-1][1:] != mark[1:]):
            self.marks = [*self.marks, mark][-INCARNATIONS_KEPT:]

    def diverge(self, sequence_id: int, upto: int) -> None:
        """Apply the fact that the peer took messages from a copy of this store."""
        self.divergence = sequence_id, upto

    def resolved(self) -> None:
        """Apply the fact that a person has decided: what is left goes in a new sequence."""
        self.divergence, self.anew = None, True

    def renewed(self, sequence_id: int, judged: PeerPosition = NOWHERE) -> None:
        """Apply the fact that what is left goes on in a new sequence."""
        self.sequence_id, self.base, self.anew = sequence_id, 0, False
        self.judged = judged
