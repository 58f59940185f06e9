"""The incoming half of the durable state: how far each stream came, what its source is to be told.

It has checkpoint files of its own, MQInSeqs.lg1 and .lg2, and may be replayed from another fact on
than the rest. So it is made by facts alone and never looks at the other half.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from dray.delivery.confirmation import Outbox, OutboxSnapshot
from dray.delivery.incoming import IncomingSnapshot, IncomingStreams, StreamKey
from dray.delivery.lineage import met_with
from dray.manager.facts import (
    Accepted,
    Committed,
    Confirmation,
    ConfirmationsAbove,
    ConfirmationsTaken,
    Fact,
    Restored,
    SourceMet,
    StreamEnded,
)
from dray.manager.state.chunked_encoding import array_head, array_in_chunks, encode
from dray.model.classes import MessageClass
from dray.model.ids import Incarnation


class _Snapshot(msgspec.Struct, array_like=True):
    """All of it in a checkpoint."""

    incoming: list[IncomingSnapshot]
    outbox: list[OutboxSnapshot[Confirmation]]
    met: dict[str, list[list[Incarnation]]] = {}


class Sequences:
    """Incoming streams and the confirmations on their way back."""

    def __init__(self) -> None:
        self.incoming = IncomingStreams()
        self.outbox: Outbox[Confirmation] = Outbox()
        """Confirmations that the sources of incoming streams are still to be told."""
        self.met: dict[str, list[list[Incarnation]]] = {}
        """For each source, the incarnations of each copy of its store that has sent messages."""

    def apply(self, fact: Fact) -> None:
        """Make the part of a fact true that is about incoming streams."""
        match fact:
            case Accepted():
                key = StreamKey(fact.source, fact.stream)
                self.incoming.accepted(key, fact.sequence_id, fact.upto, fact.incarnation)
                refused = any(map(_is_refusal, fact.confirmations))
                self.outbox.add(key, fact.confirmations, refused=refused)
            case Committed():
                for source, stream, told in fact.confirmations:
                    self.outbox.add(StreamKey(source, stream), told)
            case ConfirmationsTaken():
                self.outbox.taken(StreamKey(fact.source, fact.stream), fact.upto)
            case ConfirmationsAbove():
                self.outbox.go_above(StreamKey(fact.source, fact.stream), fact.ordinal)
            case StreamEnded():
                key = StreamKey(fact.source, fact.stream)
                if fact.ended:
                    self.outbox.ended(key)
                else:
                    self.outbox.reopened(key)
            case SourceMet(source, incarnations):
                self.met[source] = met_with(self.met.get(source, ()), incarnations)
            case Restored():
                self.outbox.came_from_backup(fact.when_us)
            case _:
                pass

    def snapshot(self) -> Iterator[bytes]:
        """Take it as it is now; it is written down piece by piece, when and where one asks."""
        return _pieces(self.incoming.state(), self.outbox.state(), dict(self.met))

    def restore(self, snapshot: bytes) -> None:
        """Read what `snapshot` wrote."""
        found = msgspec.msgpack.decode(snapshot, type=_Snapshot)
        self.incoming = IncomingStreams(found.incoming)
        self.outbox = Outbox(found.outbox)
        self.met = found.met


def _is_refusal(told: Confirmation) -> bool:
    return told.message_class != MessageClass.ACK_REACH_QUEUE


def _pieces(
    incoming: list[IncomingSnapshot],
    outbox: list[OutboxSnapshot[Confirmation]],
    met: dict[str, list[list[Incarnation]]],
) -> Iterator[bytes]:
    """The encoding of a `_Snapshot`."""
    yield array_head(3)
    yield from array_in_chunks(incoming)
    yield array_head(len(outbox))
    for source, stream, first, waiting, ended, refused in map(msgspec.structs.astuple, outbox):
        yield array_head(6) + encode(source) + encode(stream) + encode(first)
        yield from array_in_chunks(waiting)
        yield encode(ended) + encode(refused)
    yield encode(met)
