"""The streams that a landing reads, and what it says of messages that stay."""

from __future__ import annotations

import pytest

import dray
from dray.errors import InvalidConfiguration, QueueNotFound
from dray.spark.landing.streams import between_commits, contents_of, looked_at, what_is_left
from dray.spark.source.options import RANGES


@pytest.fixture
def manager(tmp_path):
    """A queue manager in this process, with a queue of both kinds: four small, two large."""
    with dray.open(tmp_path / "manager", socket=str(tmp_path / "socket")) as opened:
        queue = opened.create_queue("orders")
        large = dray.LargeMessageQueue(queue)
        for _ in range(2):
            large.send(b"large")
            opened.queue("orders", raw=True).send_many([b"small"] * 2)
        yield opened


@pytest.fixture
def url(manager, tmp_path):
    return f"dray+unix://{tmp_path / 'socket'}"


def left(url, as_):
    with looked_at(url, "orders") as catalogue:
        return list(what_is_left(catalogue, as_))


def test_what_is_to_land_decides_the_contents_that_are_read():
    assert contents_of("auto") == ("large", RANGES)
    assert contents_of("large") == ("large",)
    assert contents_of("messages") == (RANGES,)
    with pytest.raises(InvalidConfiguration, match="auto or large or messages"):
        contents_of("everything")


def test_an_idle_landing_does_not_end_before_its_last_commit():
    assert between_commits(10.0, None) == 10.0
    assert between_commits(10.0, 3.0) == 1.5
    assert between_commits(0.0, 3.0) == 0.0


@pytest.mark.parametrize(
    ("as_", "counts"), [("auto", []), ("large", [4]), ("messages", [2])], ids=str
)
def test_the_kind_that_does_not_land_is_counted(url, as_, counts):
    told = left(url, as_)
    assert [count for count, _ in told] == counts
    for _, sentence in told:
        assert sentence.startswith(f"queue 'orders' at {url} has ")
        assert "; land with --as auto, or receive" in sentence


def test_what_a_receiver_holds_is_counted_once_for_each_kind(url, manager):
    raw = manager.queue("orders", raw=True)
    small = next(each.lookup_id for each in raw.peek_range() if bytes(each.body) == b"small")
    with manager.transaction() as transaction:
        raw.receive_by_lookup_id(small, transaction=transaction)
        ((count, sentence),) = left(url, "auto")
        transaction.abort()
    assert count == 1
    assert "that a receiver holds; land again when it has committed" in sentence


def test_a_landing_ends_well_when_the_last_queue_of_its_pattern_is_gone(url, manager):
    manager.delete_queue("orders")
    with looked_at(url, "ord*") as catalogue:
        assert list(what_is_left(catalogue, "auto")) == []
    with pytest.raises(QueueNotFound):
        left(url, "auto")
