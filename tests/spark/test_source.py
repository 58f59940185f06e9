"""`format("dray")`: rows of queues, ranges, limits; and that nothing is taken from a queue."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import dray
from dray.errors import InvalidConfiguration, QueueNotFound, QueueRecreated, StoreError
from dray.spark.failure import plainly
from dray.spark.source import ranges
from dray.spark.source.batch import BatchReader
from dray.spark.source.catalogue import Catalogue
from dray.spark.source.offsets import QueuePlace, QueueSpan, spans
from dray.spark.source.options import read_options
from dray.spark.source.reader import StreamReader
from dray.wire import frames
from dray.wire.range_frames import MeasureRange
from dray.wire.stream import FrameStream

slow_spark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def orders(manager):
    """A queue with ten small messages, each in a transaction of its own."""
    queue = manager.create_queue("orders")
    for number in range(10):
        queue.send(dray.Message(body=b"%d" % number * 100, label=f"label {number}", priority=3))
    return queue


@pytest.fixture
def catalogue(daemon):
    """Make a catalogue of the manager's queues."""
    made = []

    def make(queue, **options):
        made.append(Catalogue(read_options({"url": daemon.url, "queue": queue, **options})))
        return made[-1]

    yield make
    for each in made:
        each.close()


def place_of(catalogue):
    (place,) = catalogue.places
    return place


@pytest.mark.parametrize(
    ("count", "size", "given", "tasks"),
    [
        (100, 10, {}, 1), (100, 10, {"minPartitions": "3"}, 3), (600, 10, {}, 2),
        (8, 20_000, {}, 2), (8, 70_000, {}, 4), (1_200, 10, {}, 4),
    ],
)  # fmt: skip
def test_a_few_small_messages_are_one_task_unless_the_query_wants_more(
    catalogue, manager, *, count, size, given, tasks
):
    """Bytes or rows make a task worth what it costs, and each message is in one."""
    manager.create_queue("orders").send_many([b"x" * size] * count)
    planner = catalogue("orders", **given)
    place = place_of(planner)
    whole = QueueSpan(place.manager_id, place.queue, place.born, 0, count)

    given = read_options({"url": "dray://x", "queue": "x", **given})
    parts = [part for part, _ in planner.cut(whole, given.partitions)]

    assert len(parts) == tasks
    assert [part.after for part in parts] == [0, *(part.upto for part in parts[:-1])]
    assert parts[-1].upto == count


def test_queues_are_found_by_name_and_pattern(catalogue, manager, orders):
    manager.create_queue("orders-eu")

    assert [place.queue for place in catalogue("ORDERS").places] == ["orders"]
    found = [place.queue for place in catalogue("orders*,parcels").places]
    assert sorted(found) == ["orders", "orders-eu", "parcels"]
    with pytest.raises(QueueNotFound):
        _ = catalogue("nowhere").places
    with pytest.raises(QueueNotFound):
        catalogue("orders").place(QueueSpan("f" * 32, "orders", 1, 0, 1))


def test_a_pattern_that_no_queue_fits_is_an_error(catalogue, orders):
    assert len(catalogue("orders,ord*").places) == 1
    with pytest.raises(QueueNotFound, match=r"no queue fits the pattern 'order-\*'"):
        _ = catalogue("orders,order-*").places


@pytest.mark.parametrize(
    ("kind", "begin"),
    [(BatchReader, BatchReader.partitions), (StreamReader, StreamReader.initialOffset)],
)
def test_starting_offsets_of_a_manager_that_no_url_has_are_an_error(daemon, orders, kind, begin):
    born = orders.info().born
    starting = json.dumps({"f" * 32: {"orders": {"born": born, "lookup_id": 2}}})
    options = {"url": daemon.url, "queue": "orders", "startingOffsets": starting}
    planner = kind(read_options(options))
    with pytest.raises(InvalidConfiguration, match=f"names the queue manager {'f' * 32}"):
        begin(planner)
    planner.catalogue.close()


def test_a_batch_from_offsets_of_a_queue_that_is_gone_is_an_error(daemon, manager, orders):
    offset = {"born": orders.info().born, "lookup_id": 2}
    starting = {manager.info().id: {"orders": offset, "gone": offset}}
    options = {"url": daemon.url, "queue": "*", "startingOffsets": json.dumps(starting)}
    with pytest.raises(StoreError, match="'gone'"):
        BatchReader(read_options(options)).partitions()
    lenient = BatchReader(read_options(options | {"failOnDataLoss": "false"}))
    assert sum(each.span.upto - each.span.after for each in lenient.partitions()) == 8


def test_a_queue_that_was_made_again_is_not_the_one_that_was_read(catalogue, manager, orders):
    found = catalogue("orders")
    place = place_of(found)
    read = found.latest({})
    manager.delete_queue("orders")
    manager.create_queue("orders").send(b"new")
    found.forget()

    for look in (
        lambda: found.check_births(read),
        lambda: found.place(QueueSpan(*place.birth, 0, 10)),
    ):
        with pytest.raises(QueueRecreated, match=r"queue 'orders' of manager .*acceptNewQueue"):
            look()
    again = place_of(found)
    assert again.born > place.born
    # From its first position: what was read of the earlier queue counts for nothing.
    assert list(spans(read, found.latest(read))) == [QueueSpan(*again.birth, 0, 11)]


@pytest.mark.parametrize("content", ["messages", "large"])
def test_rows_of_a_queue_that_was_made_again_under_a_task_are_never_given(
    daemon, manager, parcels, content
):
    def reader(**options):
        given = {"url": daemon.url, "queue": "parcels", "content": content, "minPartitions": "1"}
        return BatchReader(read_options(given | options))

    parcels.send(bytes(25_000))
    strict, lenient = reader(), reader(failOnDataLoss="false")
    (planned,) = strict.partitions()
    assert sum(batch.num_rows for batch in strict.read(planned))
    manager.delete_queue("parcels")
    manager.create_queue("parcels")
    parcels.send(bytes(25_000))
    # The queue may also be made again while the planner asks how far it reaches.
    (late,) = reader().partitions()
    if content == "large":
        late.work = [each._replace(place=planned.work[0].place) for each in late.work]
    else:
        late.place = planned.place

    for task in (planned, late):
        with pytest.raises(QueueRecreated, match=r"queue 'parcels'"):
            list(strict.read(task))
        assert [batch.num_rows for batch in lenient.read(task)] == []


def without_receipts(offsets):
    """Offsets as far as a test can foretell them."""
    return {
        manager_id: {
            queue: {name: part for name, part in offset.items() if name != "receipt"}
            for queue, offset in queues.items()
        }
        for manager_id, queues in offsets.items()
    }


def test_the_reach_of_messages_keeps_to_its_limits(catalogue, orders):
    found = catalogue("orders")
    place = place_of(found)

    assert found.reach(place, 0).upto == 10
    assert found.reach(place, 4).upto == 10
    assert found.reach(place, 10).upto == 10
    assert found.reach(place, 4, rows_max=3).upto == 7
    assert found.reach(place, 4, upto=6).upto == 6
    assert found.reach(place, 6, upto=6).upto == 6
    # A record of 100 bytes of body has a header and a label as well.
    assert found.reach(place, 0, bytes_max=3 * 200).upto == 3
    assert found.reach(place, 0, bytes_max=1).upto == 1
    assert without_receipts(found.latest({})) == {
        place.manager_id: {"orders": {"born": orders.info().born, "lookup_id": 10}}
    }


def test_the_reach_of_messages_begins_at_what_is_there(catalogue, orders):
    orders.settle(upto=8)
    found = catalogue("orders")

    assert found.reach(place_of(found), 0, rows_max=1).upto == 9


def test_the_reach_of_large_messages_keeps_to_its_limits(catalogue, parcels):
    for _ in range(4):
        parcels.send(bytes(25_000))
    found = catalogue("parcels", content="large")
    place = place_of(found)
    # Header, three fragments, trailer: each begins five positions behind the one before.
    firsts = [entry.first_lookup_id for entry in found.large_in(QueueSpan(*place.birth, 0, 99))]

    assert firsts == [1, 6, 11, 16]
    assert found.reach(place, 0).upto == 16
    assert found.reach(place, 6).upto == 16
    assert found.reach(place, 16).upto == 16
    assert found.reach(place, 0, rows_max=2).upto == 6
    assert found.reach(place, 0, bytes_max=60_000).upto == 6
    assert found.reach(place, 0, bytes_max=1).upto == 1
    assert found.reach(place, 0, upto=12).upto == 11
    assert [each.first_lookup_id for each in found.large_in(QueueSpan(*place.birth, 1, 11))] == [
        6,
        11,
    ]


def test_a_large_message_that_is_still_being_sent_is_out_of_reach(catalogue, manager, parcels):
    parcels.send(b"whole")
    found = catalogue("parcels", content="large")
    with manager.transaction() as transaction:
        parcels.send(b"not yet", transaction=transaction)
        assert found.reach(place_of(found), 0).upto == 1
    assert found.reach(place_of(found), 0).upto == 4


def test_how_far_queues_reach_costs_one_request_each_whatever_their_depth(
    daemon, manager, monkeypatch
):
    for name, count in (("orders", 3), ("orders-eu", 3_000)):
        manager.create_queue(name).send_many([b"x"] * count)
    options = {"url": daemon.url, "queue": "orders,orders-eu", "maxBytesPerTrigger": "200KiB"}
    reader = StreamReader(read_options(options))
    start = reader.latestOffset({}, reader.getDefaultReadLimit())
    asked = []
    encode = frames.encode_frame
    monkeypatch.setattr(
        "dray.client.connections.session.encode_frame",
        lambda head, *rest: asked.append(type(head)) or encode(head, *rest),
    )

    end = reader.latestOffset(start, reader.getDefaultReadLimit())

    assert asked == [MeasureRange, MeasureRange]
    (queues,) = end.values()
    assert queues["orders"]["lookup_id"] == 3
    assert queues["orders-eu"]["lookup_id"] > 1_500
    reader.stop()


def labels(reader, start, end):
    """The labels of what a micro-batch reads."""
    return [
        label
        for task in reader.partitions(start, end)
        for batch in reader.read(task)
        for label in batch.column("label").to_pylist()
    ]


@pytest.fixture
def planner(daemon):
    """A stream over the queue "parcels", that reads in one task."""
    made = []

    def plan(content, **options):
        given = {"url": daemon.url, "queue": "parcels", "content": content, "minPartitions": "1"}
        made.append(StreamReader(read_options(given | options)))
        return made[-1]

    yield plan
    for each in made:
        each.stop()


@pytest.mark.parametrize("content", ["messages", "large"])
def test_what_a_receiver_gives_back_is_still_read(manager, parcels, planner, content):
    single = manager.queue("parcels", raw=True)
    for number in range(6):
        send = parcels.send if content == "large" else single.send
        send(b"body", label=f"{number}", correlation_id=f"{number}")
    reader = planner(content)
    with manager.transaction() as transaction:
        receive = parcels if content == "large" else single
        receive.receive_by_correlation_id("3", transaction=transaction)
        reached = reader.latestOffset({}, reader.getDefaultReadLimit())
        assert labels(reader, {}, reached) == ["0", "1", "2"]
        assert reader.latestOffset(reached, reader.getDefaultReadLimit()) == reached
        transaction.abort()
    rest = reader.latestOffset(reached, reader.getDefaultReadLimit())
    assert labels(reader, reached, rest) == ["3", "4", "5"]


@pytest.mark.parametrize("content", ["messages", "plain-ranges"])
@pytest.mark.parametrize("position", [1, 3])
def test_a_message_that_is_claimed_after_it_was_planned_is_read_all_the_same(
    manager, planner, content, position
):
    single = manager.queue("parcels", raw=True)
    for number in range(4):
        single.send(b"body", label=f"{number}")
    reader = planner(content, minPartitions="2")
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    with manager.transaction() as transaction:
        single.receive_by_lookup_id(position, transaction=transaction)
        tasks = reader.partitions({}, end)
        assert [(task.span.after, task.span.upto, task.messages) for task in tasks] == [
            (0, 2, 2),
            (2, 4, 2),
        ]
        if content == "messages":
            assert labels(reader, {}, end) == ["0", "1", "2", "3"]
        transaction.abort()
    assert single.info().message_count == 4


def test_a_message_that_leaves_after_it_was_planned_is_told(daemon, manager, planner, caplog):
    single = manager.queue("parcels", raw=True)
    single.send_many([b"body"] * 5)
    strict, lenient = planner("messages"), planner("messages", failOnDataLoss="false")
    end = strict.latestOffset({}, strict.getDefaultReadLimit())
    (task,) = strict.partitions({}, end)
    (snapshot,) = BatchReader(read_options({"url": daemon.url, "queue": "parcels"})).partitions()
    single.receive_by_lookup_id(2)
    single.receive_by_lookup_id(5)

    assert [batch.num_rows for batch in lenient.read(task)] == [3]
    told = "2 messages between positions 1 and 5 left queue 'parcels' of manager"
    assert told in caplog.text
    with pytest.raises(StoreError, match=rf"^{told} .* failOnDataLoss"):
        list(strict.read(task))
    # Planned again, the range has what is there.
    assert labels(strict, {}, end) == [""] * 3
    # A batch query gives what it finds.
    caplog.clear()
    assert [batch.num_rows for batch in BatchReader(strict.options).read(snapshot)] == [3]
    assert not caplog.text


def test_a_planned_range_is_counted_to_its_end_however_little_one_answer_counts(
    manager, planner, monkeypatch
):
    """As a queue of several priorities is, whose entries are counted one by one."""
    parcels = manager.queue("parcels", raw=True)
    parcels.send_many([b"body"] * 20)
    reader = planner("messages", minPartitions="3")
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    measure = ranges.measure

    def measure_little(queue, after, *, upto, **options):
        return measure(queue, after, upto=min(upto, after + 4), **options)

    monkeypatch.setattr(ranges, "measure", measure_little)
    tasks = reader.partitions({}, end)
    spans = [(task.span.after, task.span.upto) for task in tasks]
    assert len(spans) <= 3
    assert [after for after, _ in spans] == [0, *(upto for _, upto in spans[:-1])]
    assert spans[-1][1] == 20
    assert sum(task.messages for task in tasks) == 20


@pytest.mark.parametrize("outcome", ["abort", "commit"])
def test_a_large_message_that_is_claimed_after_it_was_planned_is_waited_for(
    manager, parcels, planner, caplog, *, outcome
):
    for number in range(3):
        parcels.send(bytes(25_000), label=f"{number}")
    reader = planner("large", claimTimeout="1", failOnDataLoss="false")
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    # The transaction is left first: the thread waits for its end.
    with ThreadPoolExecutor(1) as pool, manager.transaction() as transaction:
        parcels.receive(transaction=transaction)
        (task,) = reader.partitions({}, end)
        reading = pool.submit(list, reader.read(task))
        waited = time.monotonic() + 100
        while "has held the message at position 1" not in caplog.text:
            assert time.monotonic() < waited
            assert not reading.done()
            time.sleep(0.05)
        getattr(transaction, outcome)()
        (batch,) = reading.result()
    expected = ["0", "1", "2"] if outcome == "abort" else ["1", "2"]
    assert sorted(batch.column("label").to_pylist()) == expected


def test_a_claim_that_lasts_is_named_in_a_warning(manager, parcels, planner, caplog):
    parcels.send(b"body")
    reader = planner("large", claimTimeout="1")
    with manager.transaction() as transaction:
        parcels.receive(transaction=transaction)
        until = time.monotonic() + 100
        while "has held the message at position 1 of queue 'parcels'" not in caplog.text:
            assert time.monotonic() < until
            assert reader.latestOffset({}, reader.getDefaultReadLimit()) == {}
            time.sleep(0.05)
        transaction.abort()


def test_without_bodies_none_crosses_the_wire(daemon, manager, monkeypatch):
    body = bytes(1_000_000)
    manager.create_queue("orders").send_many([dray.Message(body=body, label="a")] * 3)
    options = {"url": daemon.url, "queue": "orders", "bodies": "reference"}
    reader = BatchReader(read_options(options))
    counts = []
    received = FrameStream.received
    monkeypatch.setattr(
        FrameStream,
        "received",
        lambda stream, count: counts.append(count) or received(stream, count),
    )
    rows = [
        row
        for task in reader.partitions()
        for each in reader.read(task)
        for row in each.to_pylist()
    ]

    assert [(row["body"], row["body_size"], row["label"]) for row in rows] == [
        (None, len(body), "a")
    ] * 3
    assert 0 < sum(counts) < 100_000


class TestInSpark:
    pytestmark = slow_spark

    @pytest.fixture
    def read(self, spark, daemon):
        """Read a queue as a table, without registering anything."""

        def read_now(queue, **options):
            reader = spark.read.format("dray").option("url", daemon.url).option("queue", queue)
            return reader.options(**options).load()

        return read_now

    def test_messages_are_rows(self, read, manager, orders):
        rows = read("orders", minPartitions="3").orderBy("lookup_id").collect()

        assert [row.lookup_id for row in rows] == list(range(1, 11))
        assert [bytes(row.body) for row in rows] == [b"%d" % n * 100 for n in range(10)]
        assert [row.label for row in rows] == [f"label {n}" for n in range(10)]
        assert [row.transaction_size for row in rows] == [1] * 10
        assert {row.manager_id for row in rows} == {manager.info().id}
        assert orders.info().message_count == 10

    def test_bodies_can_be_left_out(self, read, orders):  # noqa: ARG002 - fills the queue
        rows = read("orders", bodies="reference").collect()

        assert {(row.body, row.body_size) for row in rows} == {(None, 100)}

    def test_an_unknown_queue_is_one_clear_sentence(self, read):
        with pytest.raises(Exception, match="nowhere") as caught:
            read("nowhere").collect()

        assert type(plainly(caught.value)) is QueueNotFound

    def test_a_stream_goes_on_from_its_offsets(self, spark, daemon, orders, tmp_path):
        def run():
            seen = []
            reader = spark.readStream.format("dray").option("url", daemon.url)
            rows = reader.option("queue", "orders").option("maxOffsetsPerTrigger", "4").load()
            query = (
                rows.writeStream.foreachBatch(
                    lambda batch, _: seen.append(sorted(r.lookup_id for r in batch.collect()))
                )
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            return seen

        assert run() == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
        orders.send(b"later")
        assert run() == [[11]]
        last = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"))
        offsets = json.loads(last.read_text().splitlines()[-1])
        expected = {"orders": {"born": orders.info().born, "lookup_id": 11}}
        assert list(without_receipts(offsets).values()) == [expected]


def test_a_place_says_where_a_queue_is(catalogue, orders, daemon, manager):
    assert place_of(catalogue("orders")) == QueuePlace(
        daemon.url, manager.info().id, "orders", orders.info().born
    )
