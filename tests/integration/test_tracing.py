"""Spans of OpenTelemetry, as the exporter in memory of its SDK gets them."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import dray
from tests.integration.commands import until

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def exporter() -> Iterator[InMemorySpanExporter]:
    """Make this process one that uses OpenTelemetry, until the end of this file."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    made, kept = TracerProvider(), InMemorySpanExporter()
    made.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(made)
    yield kept
    # The tests behind this file are of programs that do not use it.
    del sys.modules["opentelemetry.trace"]


@pytest.fixture
def spans(exporter):
    """Give the spans that have ended since, by name."""
    exporter.clear()
    return lambda: {span.name: span for span in exporter.get_finished_spans()}


@pytest.fixture
def managers(exporter, tmp_path):
    """A source and a destination that listens, and the name of its queue at the source."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        dray.open(tmp_path / "there", listen=f"127.0.0.1:{port}", open=True) as there,
        dray.open(tmp_path / "here") as here,
    ):
        there.create_queue("orders")
        yield here, there, f"dray://127.0.0.1:{port}/orders"


def test_send_deliver_and_receive_are_spans_and_hang_together(managers, spans):
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind

    here, there, remote = managers
    with trace.get_tracer("program").start_as_current_span("order") as order:
        sent = here.queue(remote).send(b"12345", correlation_id="c7")
    message = there.queue("orders").receive(timeout=30)
    found = spans()
    send, deliver = found[f"send {remote}"], found["deliver orders"]
    receive = found["receive orders"]
    assert message.traceparent.startswith(
        f"00-{send.context.trace_id:032x}-{send.context.span_id:016x}-"
    )
    assert send.parent.span_id == order.get_span_context().span_id
    assert deliver.parent.span_id == send.context.span_id
    assert deliver.context.trace_id == send.context.trace_id
    assert deliver.start_time <= deliver.end_time
    assert [link.context.span_id for link in receive.links] == [send.context.span_id]
    assert (send.kind, deliver.kind, receive.kind) == (
        SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT,
    )  # fmt: skip
    assert dict(receive.attributes) == {
        "messaging.system": "dray",
        "messaging.operation.name": "receive",
        "messaging.operation.type": "receive",
        "messaging.destination.name": "orders",
        "messaging.message.id": sent,
        "messaging.message.body.size": 5,
        "messaging.message.conversation_id": "c7",
    }
    assert send.attributes["messaging.message.id"] == sent
    assert deliver.attributes["messaging.operation.name"] == "deliver"


def test_a_message_that_a_full_queue_refuses_is_delivered_and_one_for_no_queue_is_not(
    managers, spans
):
    here, there, remote = managers
    there.create_queue("full", quota=1)
    for name in ("full", "missing"):
        here.queue(remote.replace("orders", name)).send(b"refused")
    until(lambda: len(list(here.dead_letters())) == 2)
    assert "deliver full" in spans()
    assert "deliver missing" not in spans()


def test_each_message_of_a_batch_is_delivered_in_a_span_of_its_own(managers, spans, exporter):
    here, there, remote = managers
    here.queue(remote).send_many([b"a", b"b", dray.Message(b"c", traceparent=TRACEPARENT)])
    got = there.queue("orders").receive_transaction(timeout=30).messages
    assert [message.body for message in got] == [b"a", b"b", b"c"]
    assert got[0].traceparent == got[1].traceparent != TRACEPARENT == got[2].traceparent
    delivered = [span for span in exporter.get_finished_spans() if span.name == "deliver orders"]
    assert len(delivered) == 3
    assert {f"{span.context.trace_id:032x}" for span in delivered} == {
        message.traceparent.split("-")[1] for message in got
    }
    assert spans()[f"send {remote}"].attributes["messaging.batch.message_count"] == 3
    assert len(spans()["receive orders"].links) == 3


def test_a_large_message_carries_the_trace_to_its_receiver(managers, spans):
    here, there, remote = managers
    sent = dray.LargeMessageQueue(here.queue(remote)).send(b"x" * 100_000)
    with dray.LargeMessageQueue(there.queue("orders")).receive(timeout=30) as message:
        assert message.body() == b"x" * 100_000
        traceparent = message.traceparent
    found = spans()
    send, receive = found[f"send {remote}"], found["receive orders"]
    assert traceparent.split("-")[2] == f"{send.context.span_id:016x}"
    assert receive.links[0].context.span_id == send.context.span_id
    assert receive.attributes["messaging.message.id"] == sent
    assert receive.attributes["messaging.message.body.size"] == 100_000
    assert found["deliver orders"].parent.span_id == send.context.span_id


def test_a_large_message_whose_fragments_came_ahead_is_delivered_in_one_span(
    managers, spans, exporter, caplog
):
    here, there, remote = managers
    here.queue(remote).send(b"first")
    there.queue("orders").receive(timeout=30)
    exporter.clear()
    with here.transaction() as transaction:
        body = b"x" * 9_000_000
        dray.LargeMessageQueue(here.queue(remote)).send(body, transaction=transaction)
        until(lambda: there.info().ahead_bytes > len(body))
    with dray.LargeMessageQueue(there.queue("orders")).receive(timeout=30) as message:
        assert message.body() == body
    delivered = [span for span in exporter.get_finished_spans() if span.name == "deliver orders"]
    assert [span.parent.span_id for span in delivered] == [
        spans()[f"send {remote}"].context.span_id
    ]
    assert "has to be ended" not in caplog.text


def test_a_span_processor_that_fails_spoils_no_delivery_and_no_receive(managers, exporter, caplog):
    from opentelemetry import trace
    from opentelemetry.sdk.trace import SpanProcessor

    class Failing(SpanProcessor):
        def on_start(self, span, parent_context=None):
            del parent_context
            if span.name in ("deliver failing", "receive failing"):
                raise ZeroDivisionError

    trace.get_tracer_provider().add_span_processor(Failing())
    here, there, remote = managers
    queue = there.create_queue("failing")
    for body in (b"first", b"second"):
        here.queue(remote.replace("orders", "failing")).send(body)
        assert queue.receive(timeout=30).body == body
    assert caplog.text.count("a span of a delivery could not be made") == 1
    assert caplog.text.count("a span of a receive could not be made") == 1
    assert "has to be ended" not in caplog.text


def test_a_handler_runs_in_a_span_of_the_senders_trace_and_an_error_marks_it(managers, spans):
    from opentelemetry import trace
    from opentelemetry.trace import SpanKind

    _, there, _ = managers
    queue = there.create_queue("handled", exist_ok=True)
    queue.send(b"x")
    seen = []

    def handler(message, transaction):
        seen.append(trace.get_current_span().get_span_context())
        raise ZeroDivisionError

    dray.Receiver(queue, retries=0, then="drop").handle_next(handler, timeout=30)
    found = spans()
    process = found["process handled"]
    assert process.parent.span_id == found["send handled"].context.span_id
    assert seen == [process.context]
    assert process.kind is SpanKind.CONSUMER
    assert not process.status.is_ok
    assert process.events[0].attributes["exception.type"] == "ZeroDivisionError"


def test_a_receive_that_times_out_makes_no_span(managers, spans):
    _, there, _ = managers
    with pytest.raises(dray.ReceiveTimeout):
        there.create_queue("nothing", exist_ok=True).receive(timeout=0)
    with suppress(dray.ReceiveTimeout):
        assert not there.queue("nothing").receive_many(10, timeout=0)
    assert spans() == {}


def test_a_traceparent_of_the_program_stays_and_a_malformed_one_harms_nobody(
    managers, spans, exporter
):
    _, there, _ = managers
    queue = there.create_queue("handed", exist_ok=True)
    for given in (TRACEPARENT, "nonsense"):
        queue.send(b"x", traceparent=given)
        assert queue.receive(timeout=30).traceparent == given
        links = spans()["receive handed"].links
        assert len(links) == (given == TRACEPARENT)
        exporter.clear()


def test_a_program_that_does_not_use_opentelemetry_does_not_import_it(tmp_path):
    program = (
        "import sys, dray\n"
        "with dray.open(sys.argv[1]) as manager:\n"
        "    queue = manager.create_queue('q')\n"
        "    queue.send(b'x')\n"
        "    assert queue.receive().traceparent is None\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "data")], check=True)
