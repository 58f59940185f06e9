"""A queue in words: what `dray queue show` and `dray outgoing show` print."""

from __future__ import annotations

import pytest

from dray.cli.queue_text import record_of, refusal_text
from dray.model.classes import QueueKind
from dray.model.queue import DeliveryInfo, QueueInfo, Refusal
from dray.model.words import time_text


def queue(**more: object) -> QueueInfo:
    counts = {"message_count": 0, "byte_count": 0, "journal_count": 0, "journal_bytes": 0}
    return QueueInfo(name="q", kind=QueueKind.PRIVATE, transactional=True, **counts, **more)


def test_nothing_that_is_unset_is_shown_as_a_python_value() -> None:
    delivery = DeliveryInfo(next_hop="dray://h:7340", remote_queue="q", link="disconnected")
    for info in (queue(), queue(delivery=delivery)):
        assert not {"None", "[]", "True", "False"} & {*record_of(info).values()}
    assert record_of(queue())["digest"] == "blake3 (default)"
    assert record_of(queue(digest="sha256"))["digest"] == "sha256"


def test_the_time_of_the_oldest_message_is_one_to_read() -> None:
    assert record_of(queue(oldest_time=1e9))["oldest time"] == time_text(1e9)


@pytest.mark.parametrize(("count", "told"), [(0, ""), (1, ", 1 message"), (2, ", 2 messages")])
def test_a_refusal_names_its_messages_only_if_there_are_any(count: int, told: str) -> None:
    refusal = Refusal(code="store-full", sentence="its disk is full", count=count, since=1e9)
    said = f"refused (store-full){told} since {time_text(1e9)}: its disk is full"
    assert refusal_text(refusal) == said
