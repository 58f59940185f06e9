"""Makes spans of what a program sends, receives and handles (`dray.spans`).

A receive becomes a span once it has messages: a receiver that waits leaves none behind.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dray.spans import attributes_of, context_of, tracer

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Tracer

_log = logging.getLogger(__name__)
_Call = TypeVar("_Call", bound=Callable[..., Any])


class Traced(Protocol):
    """A message or a large message, as far as a span tells of it."""

    @property
    def traceparent(self) -> str | None:
        """The context of its sender."""


def traces_send(method: _Call) -> _Call:
    """Make a span of each call of a method that sends one message, which carries its context."""

    @functools.wraps(method)
    async def call(self: Any, body: object, **named: Any) -> object:  # noqa: ANN401 - as the method has it
        if (active := tracer()) is None:
            return await method(self, body, **named)
        with _sending(active, self.handle.name) as (span, traceparent):
            if named.get("traceparent", getattr(body, "traceparent", None)) is None:
                named["traceparent"] = traceparent
            sent = await method(self, body, **named)
            span.set_attribute("messaging.message.id", sent)
            return sent

    return call  # type: ignore[return-value]


def traces_send_many(method: _Call) -> _Call:
    """Make one span of each call of a method that sends messages; all carry its context."""
    from dray.client.calls.messages import message_from

    @functools.wraps(method)
    async def call(self: Any, messages: Iterable[Any], *given: Any, **named: Any) -> object:  # noqa: ANN401 - as the method has it
        if (active := tracer()) is None:
            return await method(self, messages, *given, **named)
        with _sending(active, self.handle.name) as (span, traceparent):
            batch = [
                message_from(
                    each, {"traceparent": getattr(each, "traceparent", None) or traceparent}
                )
                for each in messages
            ]
            span.set_attribute("messaging.batch.message_count", len(batch))
            return await method(self, batch, *given, **named)

    return call  # type: ignore[return-value]


def traces_receive(method: _Call) -> _Call:
    """Make a span of each call of a method that receives, with a link to each sender's span."""

    @functools.wraps(method)
    async def call(self: Any, *given: Any, **named: Any) -> object:  # noqa: ANN401 - as the method has it
        active = tracer()
        began = 0 if active is None else time.time_ns()
        received = await method(self, *given, **named)
        if active is not None:
            try:
                _tell_received(active, self.handle.name, received, began)
            except Exception:  # noqa: BLE001 - of any span processor of the program
                # The messages have left their queue: their program must have them.
                _log_once()
        return received

    return call  # type: ignore[return-value]


@functools.cache
def _log_once() -> None:
    _log.exception("a span of a receive could not be made; the log tells of the first one only")


@contextmanager
def processing(queue: str, message: Traced) -> Iterator[None]:
    """Make a span of the handling of a message, in the trace of its sender."""
    if (active := tracer()) is None:
        yield
        return
    from opentelemetry.trace import SpanKind

    with active.start_as_current_span(
        f"process {queue}",
        context=context_of(message.traceparent),
        kind=SpanKind.CONSUMER,
        attributes=attributes_of("process", "process", queue) | _told_of(message),
    ):
        yield


@contextmanager
def _sending(active: Tracer, queue: str) -> Iterator[tuple[Any, str | None]]:
    """Give the span of a send, and the context that its messages carry."""
    from opentelemetry.trace import SpanKind
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    attributes = attributes_of("send", "send", queue)
    with active.start_as_current_span(
        f"send {queue}", kind=SpanKind.PRODUCER, attributes=attributes
    ) as span:
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier)
        yield span, carrier.get("traceparent")


def _tell_received(active: Tracer, queue: str, received: Any, began: int) -> None:  # noqa: ANN401 - one or many
    from opentelemetry.trace import SpanKind

    messages = getattr(received, "messages", received)
    if messages == []:
        return
    attributes = attributes_of("receive", "receive", queue)
    if isinstance(messages, list):
        attributes["messaging.batch.message_count"] = len(messages)
    else:
        attributes |= _told_of(messages)
        messages = [messages]
    active.start_span(
        f"receive {queue}",
        kind=SpanKind.CLIENT,
        attributes=attributes,
        links=list(_links_to(messages)),
        start_time=began,
    ).end()


def _links_to(messages: Iterable[Traced]) -> Iterator[Link]:
    from opentelemetry.trace import Link, get_current_span

    for message in messages:
        sender = get_current_span(context_of(message.traceparent)).get_span_context()
        if sender.is_valid:
            yield Link(sender)


def _told_of(message: Any) -> dict[str, Any]:  # noqa: ANN401 - a message or a large one
    """Attributes of one message."""
    large = getattr(message, "sequence_id", None)
    told = {
        "messaging.message.id": message.id if large is None else large,
        "messaging.message.body.size": message.body_size if large is None else message.size,
        "messaging.message.conversation_id": message.correlation_id,
    }
    return {name: value for name, value in told.items() if value is not None}
