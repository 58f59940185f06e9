"""Spans of OpenTelemetry, as clients and queue managers make them.

Only a program that has imported `opentelemetry.trace` can have named an exporter, so Dray never
imports it first: without it a call costs one look into a dictionary. Names and attributes are those
of OpenTelemetry's conventions for messaging (opentelemetry.io/docs/specs/semconv/messaging).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer

_API: Final = "opentelemetry.trace"


def tracer() -> Tracer | None:
    """The tracer to use, None if this program does not use OpenTelemetry."""
    api = sys.modules.get(_API)
    return None if api is None else api.get_tracer("dray")


def attributes_of(operation: str, kind: str, queue: str) -> dict[str, Any]:
    """Attributes of each span: the operation, its type by the conventions, and the queue."""
    return {
        "messaging.system": "dray",
        "messaging.operation.name": operation,
        "messaging.operation.type": kind,
        "messaging.destination.name": queue,
    }


def context_of(traceparent: str | None) -> Context:
    """The context that a message carries; an empty one if it carries none, or a malformed one."""
    from opentelemetry.context import Context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier = {} if traceparent is None else {"traceparent": traceparent}
    return TraceContextTextMapPropagator().extract(carrier, Context())
