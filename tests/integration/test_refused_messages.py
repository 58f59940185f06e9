"""Messages that another queue manager refuses, with real queue managers and commands."""

from __future__ import annotations

import json
import signal
import time
from contextlib import contextmanager

import pytest

import dray
from tests.integration.commands import dray as dray_command
from tests.integration.commands import finish, started, until

pytestmark = pytest.mark.slow
DEAD = "system$;deadxact"


@contextmanager
def serving(data, *more):
    with started("serve", "--data", data, "--open", "--listen", "127.0.0.1:0", *more) as process:
        yield process, process.stdout.readline().split()[-1].decode()


def dead_letters(manager):
    return list(manager.queue(DEAD).messages())


def test_a_full_queue_elsewhere_loses_no_message_and_its_source_logs_how_many(tmp_path):
    """With defaults: fifty messages, and room for ten."""
    body = bytes(10_000)
    with serving(tmp_path / "there") as (_, there), serving(tmp_path / "here") as (process, here):
        with dray.connect(there) as manager:
            manager.create_queue("orders", quota=110_000)
        with dray.connect(here) as manager:
            queue = manager.queue(f"{there}/orders")
            for number in range(50):
                queue.send(body, app_specific=number)
            until(lambda: queue.info().message_count == 0 and len(dead_letters(manager)) == 40)
            kept = dead_letters(manager)
            info = queue.info()
        with dray.connect(there) as manager:
            arrived = [message.app_specific for message in manager.queue("orders").messages()]
        process.send_signal(signal.SIGTERM)
        lines = [json.loads(line) for line in finish(process).err.splitlines()]
    assert arrived == list(range(10))
    assert [message.app_specific for message in kept] == list(range(10, 50))
    assert {message.destination for message in kept} == {f"{there}/orders"}
    assert {message.message_class for message in kept} == {dray.MessageClass.NACK_Q_EXCEED_QUOTA}
    assert info.state == "refused"
    assert info.delivery.refusal.code == "quota-exceeded"
    warnings = [line for line in lines if line.get("kind") == "refused-quota-exceeded"]
    assert sum(line["times"] for line in warnings) == 40
    assert len(warnings) <= 2
    assert all(f"{there}/orders: " in line["message"] for line in warnings)
    assert "the queue there is full" in warnings[0]["message"]


@pytest.mark.parametrize(
    ("options", "kept"),
    [([], 1), (["--large"], 3), (["--dead-letter"], 1), (["--no-dead-letter", "--large"], 0)],
    ids=str,
)
def test_a_file_to_a_mistyped_queue_is_a_dead_letter_unless_its_sender_said_no(
    tmp_path, options, kept
):
    file = tmp_path / "one.bin"
    file.write_bytes(b"payload" * 1000)
    with serving(tmp_path / "there") as (_, there), serving(tmp_path / "here") as (_, here):
        url = f"{there}/typo"
        said = dray_command("send", url, file, *options, url=here)
        assert said.status == 0
        with dray.connect(here) as manager:
            queue = manager.queue(url)
            until(lambda: queue.info().state == "refused" and queue.info().message_count == 0)
            until(lambda: len(dead_letters(manager)) == kept)
            bodies = [bytes(each.body) for each in dead_letters(manager)]
            assert (file.read_bytes() in bodies) == bool(kept)
        listed = dray_command("queue", "list", url=here).out
        shown = dray_command("queue", "show", url, url=here).out
    assert "refused (queue-not-found)" in listed
    many = "3 messages" if "--large" in options else "1 message"
    assert f"{url}: refused (queue-not-found), {many} since " in listed
    assert "there is no queue 'typo' here" in listed
    assert f"refused (queue-not-found), {many} since " in shown


def test_every_part_of_a_large_message_to_a_mistyped_queue_is_a_dead_letter(tmp_path):
    with serving(tmp_path / "there") as (_, there), dray.open(tmp_path / "here") as here:
        queue = here.queue(f"{there}/typo")
        large = dray.LargeMessageQueue(queue, fragment_size=100_000)
        large.send(bytes(1_000_000))
        large.send(bytes(1_000_000), use_dead_letter_queue=False)
        # Header, ten fragments, trailer; of the other one nothing.
        until(lambda: len(dead_letters(here)) == 12 and not queue.info().message_count)
        assert queue.info().state == "refused"
        assert queue.info().delivery.refusal.count == 24


def test_a_queue_that_is_made_later_takes_messages_within_a_second(tmp_path):
    with (
        serving(tmp_path / "there") as (_, there),
        dray.connect(there) as goal,
        dray.open(tmp_path / "here") as here,
    ):
        queue = here.queue(f"{there}/orders")
        queue.send(b"too early")
        until(lambda: queue.info().state == "refused")
        orders = goal.create_queue("orders")
        began = time.monotonic()
        until(lambda: queue.info().state != "refused")
        queue.send(b"in time")
        assert bytes(orders.receive(timeout=20).body) == b"in time"
        # The schedule would have asked after half a minute.
        assert time.monotonic() - began < 20
        (kept,) = dead_letters(here)
        assert bytes(kept.body) == b"too early"
