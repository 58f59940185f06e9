"""Spans of OpenTelemetry for messages that come from other queue managers.

A span `deliver QUEUE` lasts from the send of a message, by its sender's clock, until this queue
manager has taken it over; it belongs to the trace that the message carries. Each StreamState says
how far a stream has come, so a message that is sent again makes no second span. A message that
carries no trace makes none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dray.manager.events import Answer, Effect, Event, Request, SessionClosed
from dray.spans import attributes_of, context_of, tracer
from dray.wire.peer_frames import Data, OpenStream, StreamState
from dray.wire.record import read_header, read_properties
from dray.wire.stream import Frame

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

    from dray.wire.message_frames import Envelope

logger = logging.getLogger(__name__)

_NS_IN_US: Final = 1_000


def delivery_spans() -> DeliverySpans | None:
    """Look at a manager's deliveries if this program uses OpenTelemetry."""
    active = tracer()
    return None if active is None else DeliverySpans(active)


class _Stream:
    """A stream that is open on a session."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.position: tuple[int, int] | None = None
        """Sequence and number up to which it has come, None until the manager has said so."""


class DeliverySpans:
    """Makes a span of each message that a manager takes over."""

    def __init__(self, tracer: Tracer) -> None:
        """Begin without streams; `tracer` makes the spans."""
        self._tracer = tracer
        self._streams: dict[int, dict[int, _Stream]] = {}
        self._has_failed = False

    def look(self, event: Event, effects: Sequence[Effect], now: float) -> None:
        """Look at an event and at what was decided.

        It never raises: the effects are still to be done, whatever a span processor of this program
        makes of a span.
        """
        try:
            self._look(event, effects, now)
        except Exception:
            if not self._has_failed:
                self._has_failed = True
                logger.exception(
                    "a span of a delivery could not be made; the log tells of the first one only"
                )

    def _look(self, event: Event, effects: Sequence[Effect], now: float) -> None:
        match event:
            case SessionClosed(session):
                self._streams.pop(session, None)
            case Request(session, frame) if isinstance(frame.head, OpenStream):
                streams = self._streams.setdefault(session, {})
                streams[frame.head.stream] = _Stream(frame.head.queue)
        for effect in effects:
            if isinstance(effect, Answer) and isinstance(effect.head, StreamState):
                self._went_on(event, effect.session, effect.head, now)

    def _went_on(self, event: Event, session: int, state: StreamState, now: float) -> None:
        """Note how far a stream has come, and make spans of what came with the event."""
        stream = self._streams.get(session, {}).get(state.stream)
        if stream is None:
            return
        was, stream.position = stream.position, (state.sequence_id, state.upto)
        match event:
            case Request(by, Frame(head=Data() as data, body=body)) if was is not None and (
                by,
                data.stream,
            ) == (session, state.stream):
                begin = was[1] if was[0] == data.sequence_id else 0
                for envelope, traceparent in _traces(data, body, begin, state.upto):
                    self._span(stream.queue, envelope, traceparent, now)

    def _span(self, queue: str, envelope: Envelope, traceparent: str, now: float) -> None:
        from opentelemetry.trace import SpanKind

        attributes = attributes_of("deliver", "deliver", queue)
        attributes["messaging.message.envelope.size"] = envelope.length
        span = self._tracer.start_span(
            f"deliver {queue}",
            context=context_of(traceparent),
            kind=SpanKind.CONSUMER,
            attributes=attributes,
            start_time=envelope.sent_us * _NS_IN_US,
        )
        span.end(max(int(now * 1e9), envelope.sent_us * _NS_IN_US))


def _traces(data: Data, body: memoryview, was: int, upto: int) -> Iterator[tuple[Envelope, str]]:
    """The messages of a frame behind one number and up to another that carry a trace.

    Records that came ahead are fragments, which carry none; their frame has no body.
    """
    if data.ahead:
        return
    offset = 0
    for envelope in data.envelopes:
        if was < envelope.number <= upto:
            header = read_header(body, offset)
            traceparent = read_properties(body, header, offset).traceparent
            if traceparent is not None:
                yield envelope, traceparent
        offset += envelope.length
