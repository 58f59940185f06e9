"""The streams that a landing reads, and what it says of messages that stay."""

from __future__ import annotations

import click
import pytest

import dray
from dray.cli.commands import spark as commands
from dray.errors import InvalidArgument, InvalidConfiguration, QueueNotFound
from dray.spark import Until, compact, land
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


@pytest.fixture
def no_session(monkeypatch):
    """What is refused, is refused before Spark starts."""

    def start(_session):
        pytest.fail("Spark would have started")

    monkeypatch.setattr("dray.spark.landing.landing._session", start)


@pytest.mark.parametrize("size", [0, "0", "0GiB"])
def test_a_size_of_nothing_is_refused_by_the_name_that_the_caller_gave(no_session, tmp_path, size):
    with pytest.raises(InvalidConfiguration, match=r"^bytes_per_batch is a size above 0"):
        land("dray://127.0.0.1:1", "orders", tmp_path, bytes_per_batch=size)
    with pytest.raises(InvalidConfiguration, match=r"^file_size is a size above 0"):
        compact(tmp_path, file_size=size)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (("dray://127.0.0.1:1", " , "), "queue is ' , ', which names none"),
        ((",", "orders"), "url is ',', which names none"),
        (("dray://127.0.0.1:1, nonsense", "orders"), "'nonsense' is not a queue manager"),
    ],
)
def test_a_list_of_nothing_and_a_wrong_address_are_refused(no_session, tmp_path, named, said):
    with pytest.raises(InvalidConfiguration, match=said):
        land(*named, tmp_path)


@pytest.mark.parametrize(
    ("command", "arguments", "option"),
    [
        (commands.land, ["orders", "--to", "there"], "--batch"),
        (commands.compact, ["there"], "--size"),
    ],
    ids=["land", "compact"],
)
def test_an_option_of_a_size_of_nothing_is_a_usage_error(command, arguments, option):
    with pytest.raises(click.BadParameter) as raised:
        command.make_context("dray", [*arguments, option, "0B"])
    assert raised.value.format_message() == (
        f"Invalid value for '{option}': 0B is less than 1 byte"
    )


@pytest.mark.parametrize(
    "until",
    [
        Until(idle_s=float("nan")),
        Until(idle_s=-1.0),
        Until(idle_s="3"),
        Until(follow="yes"),
        Until(stop=3),
    ],
    ids=str,
)
def test_an_end_that_could_never_come_is_refused(no_session, tmp_path, until):
    with pytest.raises(InvalidArgument, match=r"^until is dray\.spark\.Until with"):
        land("dray://127.0.0.1:1", "orders", tmp_path, until=until)


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
