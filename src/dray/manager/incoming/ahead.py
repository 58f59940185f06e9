"""The destination's part in what travels ahead of a commit: pieces that are no messages yet.

    event                                    the piece                       its room
    Ahead, and there is room                 kept, in no queue               counts as staged
    Ahead beyond the bounds or the room      not placed; the source hears    -
    Data that names it, and it may enter     is the message's record         counts as the queue's
    Data that names it, refused              given up                        given back
    Data with its record                     given up                        given back
    AheadDropped, EndStream                  given up                        given back
    the connection ends, a crash             given up                        given back
    a committed message finds no room        given up; the source hears      given back
    ten minutes                              given up; the source hears      given back

A piece belongs to the connection on which it came. No fact names it, so a restart finds its bytes
free. A Data frame that names a piece that is not here is not taken: the source sends its messages
with their records. So nothing rests on a piece being kept, and pieces may be given up at any time.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from crc32c import crc32c as checksum

from dray.errors import ProtocolError, StoreFull
from dray.manager.context import Context
from dray.manager.entries import ORDINAL_MAX
from dray.manager.incoming.admission import admit_new
from dray.manager.incoming.arrival import Arrival, Placed
from dray.manager.queue import StoredQueue
from dray.manager.session import Session
from dray.model.classes import Part
from dray.model.limits import (
    AHEAD_AGE_S_MAX,
    AHEAD_BYTES_MAX,
    AHEAD_HEAD_BYTES_MAX,
    AHEAD_PIECES_MAX,
    AHEAD_SHARE,
)
from dray.store.heap.heap import Extent
from dray.wire.message_frames import MARK_SINGLE, Envelope
from dray.wire.peer_frames import Ahead, AheadDropped, AheadKept, Data
from dray.wire.record import HEADER_BYTES, RecordHeader, read_header, read_properties

PieceKey = tuple[int, int, int]
"""Stream, transaction at its source, ordinal in it."""


class KeptPiece(NamedTuple):
    """One piece: where its record lies, and the part of it that a message needs to enter."""

    queue: int
    extent: Extent
    crc: int
    header: RecordHeader
    beginning: bytes
    at: float


class KeptAhead:
    """The pieces of all peers, by the connection on which they came; volatile."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.total_bytes = 0
        """Bytes of all pieces."""
        self._sessions: dict[int, Session] = {}
        self.pieces: dict[int, dict[PieceKey, KeptPiece]] = {}
        self._used: dict[str, tuple[int, int]] = {}

    def used_by(self, peer_id: str) -> tuple[int, int]:
        """Bytes and number of the pieces of one peer."""
        return self._used.get(peer_id, (0, 0))

    def has_some(self, session: Session) -> bool:
        """Whether a piece came on a connection."""
        return session.number in self.pieces

    def find(self, session: Session, key: PieceKey) -> KeptPiece | None:
        """A piece that came on a connection."""
        return self.pieces.get(session.number, {}).get(key)

    def add(self, session: Session, key: PieceKey, piece: KeptPiece, queue: StoredQueue) -> None:
        """Keep a piece, and count its room."""
        self._sessions[session.number] = session
        self.pieces.setdefault(session.number, {})[key] = piece
        self._count(session, piece, 1)
        self.context.state.ledger.stage(queue, piece.extent.length)

    def leave(self, session: Session, key: PieceKey) -> KeptPiece | None:
        """Take a piece out; its room counts no more, and its bytes are the caller's."""
        pieces = self.pieces.get(session.number, {})
        piece = pieces.pop(key, None)
        if piece is None:
            return None
        if not pieces:
            del self.pieces[session.number], self._sessions[session.number]
        self._count(session, piece, -1)
        queue = self.context.state.queues.get(piece.queue)
        self.context.state.ledger.give_back(piece.queue, queue, piece.extent.length)
        return piece

    def drop(self, session: Session, key: PieceKey) -> None:
        """Give a piece up, if it is kept."""
        piece = self.leave(session, key)
        if piece is not None:
            self.context.store.discard(piece.extent)

    def drop_transaction(self, session: Session, stream: int, transaction: int) -> None:
        """Give up what came ahead of one commit."""
        for key in [each for each in self._keys(session) if each[:2] == (stream, transaction)]:
            self.drop(session, key)

    def drop_stream(self, session: Session, stream: int) -> None:
        """Give up all pieces of a stream."""
        for key in [each for each in self._keys(session) if each[0] == stream]:
            self.drop(session, key)

    def forget(self, session: Session) -> None:
        """A connection has ended."""
        for key in self._keys(session):
            self.drop(session, key)

    def deadline(self) -> float | None:
        """When the oldest piece is too old."""
        if not self.pieces:
            return None
        oldest = [next(iter(each.values())).at for each in self.pieces.values()]
        return min(oldest) + AHEAD_AGE_S_MAX

    def drop_old(self) -> None:
        """Give up what was not committed for too long, with the whole of its transaction."""
        context = self.context
        for session in list(self._sessions.values()):
            while (oldest := next(iter(self.pieces.get(session.number, {}).items()), None)) and (
                oldest[1].at + AHEAD_AGE_S_MAX <= context.now
            ):
                self._revoke(session, oldest[0])

    def make_room(self) -> None:
        """Give everything up: a committed message has found no room."""
        for session in list(self._sessions.values()):
            while (key := next(iter(self.pieces.get(session.number, ())), None)) is not None:
                self._revoke(session, key)

    def _revoke(self, session: Session, key: PieceKey) -> None:
        """Give up the pieces of a transaction, and tell their source."""
        stream, transaction, _ = key
        self.drop_transaction(session, stream, transaction)
        self.context.answer(session, 0, AheadKept(stream, transaction), held=False)

    def _keys(self, session: Session) -> list[PieceKey]:
        return list(self.pieces.get(session.number, ()))

    def _count(self, session: Session, piece: KeptPiece, sign: int) -> None:
        size, count = self.used_by(session.peer_id)
        size, count = size + sign * piece.extent.length, count + sign
        self.total_bytes += sign * piece.extent.length
        if count:
            self._used[session.peer_id] = size, count
        else:
            del self._used[session.peer_id]

    def handle(self, session: Session, _request_id: int, head: Ahead, *, body: memoryview) -> None:
        """Keep a piece if there is room for it, and say whether it is kept.

        The answer waits for no sync: nothing that is durable rests on a piece.
        """
        header, beginning = _read(session, head, body)
        number = session.streams.get(head.stream)
        queue = None if number is None else self.context.state.queues.get(number)
        key = (head.stream, head.transaction, head.ordinal)
        known = self.find(session, key)
        if known is not None and known.crc != head.crc:
            # The source has forgotten the earlier one, of which its client sent a part anew.
            self.drop(session, key)
            known = None
        is_kept = known is not None
        if known is None and queue is not None and self._has_room(session, queue, len(body)):
            try:
                extent = self.context.store.place(body)
            except StoreFull:
                pass  # Not kept: the source hears so, and sends the record with its message.
            else:
                now = self.context.now
                piece = KeptPiece(queue.number, extent, head.crc, header, beginning, now)
                self.add(session, key, piece, queue)
                is_kept = True
        self.context.answer(session, 0, AheadKept(*key, is_kept), held=False)

    def handle_dropped(self, session: Session, _request_id: int, head: AheadDropped) -> None:
        """Give up what came ahead of a commit that does not come."""
        self.drop_transaction(session, head.stream, head.transaction)

    def _has_room(self, session: Session, queue: StoredQueue, size: int) -> bool:
        """Whether a piece more leaves committed messages their share of the room."""
        context, (used, count) = self.context, self.used_by(session.peer_id)
        if used + size > AHEAD_BYTES_MAX or count >= AHEAD_PIECES_MAX:
            return False
        free = context.room.free - context.room.low_water
        room = min(free, context.state.ledger.room(queue, free))
        return used + size <= (room + used) // AHEAD_SHARE

    def admit(self, session: Session, queue: StoredQueue, arrival: Arrival) -> bool:
        """Admit new messages whose records came ahead; false if one did not: its source is told."""
        context, head = self.context, arrival.head
        named = head.envelopes[arrival.begin :]
        keys = [(head.stream, each.transaction, each.ordinal) for each in named]
        if not all(self._is_kept(session, *each) for each in zip(keys, named, strict=True)):
            self.drop_stream(session, head.stream)
            context.answer(session, 0, AheadKept(head.stream), held=False)
            return False
        if len(set(keys)) < len(keys):
            raise ProtocolError("two messages name one piece that came ahead of its commit")
        pieces = [
            piece for key in keys for piece in (self.leave(session, key),) if piece is not None
        ]
        try:
            admit_new(
                context,
                queue,
                arrival._replace(
                    head=msgspec.structs.replace(head, envelopes=named),
                    headers=[each.header for each in pieces],
                    body=memoryview(b"".join(each.beginning for each in pieces)),
                    begin=0,
                    placed=Placed(
                        [each.extent for each in pieces], [len(each.beginning) for each in pieces]
                    ),
                ),
            )
        finally:
            # Messages that found no room come again, and name the same pieces.
            reached = context.state.incoming.position(arrival.key)
            for key, envelope, piece in zip(keys, named, pieces, strict=True):
                if (reached.sequence_id, reached.number) < (head.sequence_id, envelope.number):
                    self.add(session, key, piece, queue)
        return True

    def _is_kept(self, session: Session, key: PieceKey, envelope: Envelope) -> bool:
        piece = self.find(session, key)
        return (
            piece is not None
            and not envelope.marks & MARK_SINGLE
            and (piece.crc, piece.extent.length) == (envelope.crc, envelope.length)
            and piece.queue == session.streams.get(key[0])
        )

    def drop_accepted(self, session: Session, head: Data) -> None:
        """Give up the pieces of messages that came with their records all the same."""
        if self.has_some(session):
            for each in head.envelopes:
                self.drop(session, (head.stream, each.transaction, each.ordinal))


def _read(session: Session, head: Ahead, body: memoryview) -> tuple[RecordHeader, bytes]:
    """The record of a piece, and its beginning. Raises `ProtocolError` if it is not as sent."""
    header = read_header(body)
    if header.record_bytes != len(body) or checksum(body) != head.crc:
        raise ProtocolError("a piece that came ahead of its commit was damaged on the way")
    if header.source.hex() != session.peer_id or header.part != Part.FRAGMENT:
        raise ProtocolError("only fragments of the source's own may come ahead of their commit")
    beginning = HEADER_BYTES + header.properties_bytes
    if not (0 < head.ordinal <= ORDINAL_MAX and beginning <= AHEAD_HEAD_BYTES_MAX):
        raise ProtocolError("a piece that came ahead of its commit has impossible properties")
    read_properties(body, header)
    return header, bytes(body[:beginning])


def check_ahead(head: Data, body: memoryview) -> list[RecordHeader]:
    """Raise `ProtocolError` for a frame that names pieces and is not as sent; gives no headers."""
    if len(body) or not head.envelopes:
        raise ProtocolError("a Data frame that names records sent ahead has records or no messages")
    return []
