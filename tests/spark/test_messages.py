"""Small messages on their way into the table: through files, once, in the order of the queue."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from dray.errors import StoreError, StoreFull
from dray.spark.landing.messages import (
    count_again,
    in_table_order,
    land_rows,
    read_ranges,
    remove_ranges,
    write_range,
)
from dray.spark.landing.summary import LandingSummary
from dray.spark.landing.table import QueueReached, Reached
from dray.spark.schema import LANDED, MESSAGES, batch_of, spark_arrow

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def message(position, number=None, **given):
    row = dict.fromkeys(MESSAGES.names) | {
        "manager": "dray://x:1", "manager_id": "m", "queue": "orders", "queue_born": 3,
        "lookup_id": position, "id": f"s\\{number or position}", "label": "",
        "body": b"%d" % position, "body_size": 1,
    }  # fmt: skip
    return row | given


def messages(*rows):
    return pa.Table.from_batches([batch_of(list(rows), MESSAGES)])


def reached(*small):
    return Reached().with_queue("m", "orders", QueueReached(small=small, born=3))


def read(first, last, **given):
    """The range of a task, as the driver gets it back."""
    row = {
        "manager_id": "m", "queue": "orders", "queue_born": 3, "first_lookup_id": first,
        "last_lookup_id": last, "fragments_present": 1,
    }  # fmt: skip
    return row | given


def ranges(*rows):
    return pa.Table.from_pylist(list(rows))


def summary():
    return LandingSummary(out=Path(), payload_directory=Path(), table_directory=Path())


def planned(*files):
    names = ("payload", "size", "fragments_present")
    return pa.table({name: [each[at] for each in files] for at, name in enumerate(names)})


def test_ranges_go_through_files_and_come_back_in_order(tmp_path):
    first = write_range(tmp_path, [batch_of([message(1)], MESSAGES)])
    second = write_range(tmp_path, [batch_of([message(at)], MESSAGES) for at in (2, 3)])
    empty = write_range(tmp_path, [])
    assert (first[2], second[2], empty[2]) == (1, 2, 0)

    found = read_ranges(tmp_path, planned(first, second, empty))

    assert found["lookup_id"].to_pylist() == [1, 2, 3]
    assert found["body"].to_pylist() == [b"1", b"2", b"3"]
    assert read_ranges(tmp_path, planned()).schema == spark_arrow(MESSAGES)
    remove_ranges(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_that_the_driver_does_not_see_whole_is_an_error(tmp_path):
    name, size, _ = write_range(tmp_path, [batch_of([message(1)], MESSAGES)])
    with pytest.raises(StoreError, match=f"{size + 1} bytes, and the driver finds {size} bytes"):
        read_ranges(tmp_path, planned((name, size + 1, 1)))
    remove_ranges(tmp_path)
    with pytest.raises(StoreError, match="finds no such file") as told:
        read_ranges(tmp_path, planned((name, size, 1)))
    assert "share. Nothing was settled" in str(told.value)


@pytest.mark.parametrize("lie", ["bytes", "messages"])
def test_a_file_with_other_messages_than_the_executor_told_is_an_error(tmp_path, lie):
    """They would count as taken by others, and stay in the queue behind the landing."""
    name, size, count = write_range(tmp_path, [batch_of([message(1)], MESSAGES)])
    if lie == "bytes":
        (tmp_path / name).write_bytes(bytes(size))
    else:
        count += 1

    with pytest.raises(StoreError, match=f"{name}, .*messages, and the driver finds") as told:
        read_ranges(tmp_path, planned((name, size, count)))
    assert "share. Nothing was settled" in str(told.value)


def test_a_full_disk_is_told_as_such(tmp_path):
    def batches():
        yield batch_of([message(1)], MESSAGES)
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreFull, match="make room and land again"):
        write_range(tmp_path, batches())


def test_rows_that_are_new_land_and_progress_tells_the_ranges_that_were_read():
    given = messages(*(message(at) for at in (1, 2, 3, 7, 8)))
    tasks = ranges(read(1, 5), read(6, 9), read(20, 30), read(31, 40, fragments_present=0))

    rows, after = land_rows(
        given, tasks, [False, True, False, False, False], reached((15, 19)), now=NOW
    )

    assert rows.schema == LANDED
    assert rows["sequence_id"].to_pylist() == ["s\\1", "s\\3", "s\\7", "s\\8"]
    assert rows["lookup_ranges"].to_pylist() == [[[at, at]] for at in (1, 3, 7, 8)]
    assert rows["landed_time"].to_pylist() == [NOW] * 4
    # Large messages between small ones divide no range, and a queue that gave nothing has none.
    assert after.queue("m", "orders") == QueueReached(small=((1, 9), (15, 30)), born=3)


def test_queues_advance_each_for_itself():
    given = messages(message(1), message(5, 2, queue="others"), message(2, 3))
    tasks = ranges(read(1, 2), read(3, 5, queue="others"))
    _, after = land_rows(given, tasks, [False] * 3, reached(), now=NOW)
    assert after.queue("m", "orders").small == ((1, 2),)
    assert after.queue("m", "others").small == ((3, 5),)


def test_a_queue_that_was_made_again_begins_anew():
    given, tasks = messages(message(1, 9, queue_born=4)), ranges(read(1, 1, queue_born=4))
    _, after = land_rows(given, tasks, [False], reached((1, 100)), now=NOW)
    assert after.queue("m", "orders") == QueueReached(small=((1, 1),), born=4)


def test_the_same_id_twice_in_a_micro_batch_lands_once():
    given = messages(message(1, 7), message(2, 7), message(3))
    rows, _ = land_rows(given, ranges(read(1, 3)), [False] * 3, reached(), now=NOW)
    assert rows["first_lookup_id"].to_pylist() == [1, 3]
    counted = summary()
    count_again(counted, given, [False] * 3, reached())
    assert (counted.replayed, counted.duplicates) == (0, 1)


def test_a_message_again_from_its_position_is_a_replay_and_from_another_a_duplicate():
    given = messages(message(1), message(4), message(9))
    counted = summary()
    count_again(counted, given, [True, True, True], reached((1, 2), (4, 5)))
    assert (counted.replayed, counted.duplicates) == (2, 1)


def test_both_kinds_stand_in_the_order_of_the_queue():
    def landed(*positions):
        rows = [{"manager_id": "m", "queue": "q", "first_lookup_id": at} for at in positions]
        return pa.Table.from_pylist(rows, schema=LANDED)

    both = in_table_order(landed(2, 6), landed(1, 4))
    assert both["first_lookup_id"].to_pylist() == [1, 2, 4, 6]
    assert in_table_order(landed(), landed(1)).num_rows == 1
    assert in_table_order(landed(3), landed()).num_rows == 1
