"""Landing into a bucket of S3, from a real queue manager, with kills around the upload."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from dray.errors import InvalidConfiguration
from dray.folders.fsspec import file_system
from dray.spark import audit, land
from tests.s3_store import objects_at, s3_on_loopback, unfinished_uploads
from tests.spark.judge import rows_in_order

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DRIVER = Path(__file__).with_name("land_and_die.py")


@pytest.fixture(scope="module")
def bucket(spark):
    """A bucket that this process and the workers of the session find."""
    with s3_on_loopback("landed") as environment:
        told = spark.sparkContext.environment
        before = dict(told)
        told.update(environment)
        yield "s3://landed"
        told.clear()
        told.update(before)


@pytest.fixture
def url(bucket):
    return f"{bucket}/{uuid.uuid4().hex}"


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def bodies(count, size=25_000):
    chance = random.Random(7)
    return [chance.randbytes(size + 11 * number) for number in range(count)]


def assert_landed_once(url, state, sent):
    """Each of `sent`, bodies by sequence id, has one row and its object; nothing else is there."""
    rows = {row["sequence_id"]: row for row in rows_in_order(state)}
    assert sorted(rows) == sorted(sent)
    expected = {f"payload/{rows[each]['payload']}": body for each, body in sent.items()}
    assert objects_at(url) == expected
    assert unfinished_uploads("landed") == []


def test_payloads_land_in_a_bucket_and_the_table_beside_the_driver(
    spark, daemon, manager, parcels, *, url, state
):
    sent = {parcels.send(body, label=f"{at}.bin"): body for at, body in enumerate(bodies(3))}
    sent[parcels.send(b"")] = b""
    manager.queue("parcels", raw=True).send(b"small")

    summary = land(daemon.url, "parcels", url, state=state, session=spark)

    assert (summary.files, summary.messages, summary.clean) == (4, 1, True)
    assert (summary.out, summary.payload_directory) == (state, f"{url}/payload")
    assert manager.queue("parcels").info().message_count == 0
    (small,) = [row for row in rows_in_order(state) if row["body"] is not None]
    assert small["body"] == b"small"
    assert sorted(path.name for path in state.iterdir()) == ["_dray", "table"]
    objects = objects_at(url)
    assert sorted(objects.values()) == sorted(sent.values())

    # An audit reads the objects, and finds the one that is another one by now, and the stranger.
    (name,) = [each for each in objects if each.endswith("-1.bin")]
    store, root = file_system(url)
    store.pipe_file(f"{root}/{name}", b"another")
    store.pipe_file(f"{root}/payload/nobody's", b"")
    found = {
        each["kind"]: each["detail"] for each in audit(state, session=spark).findings.to_pylist()
    }
    assert found["digest"].endswith(f"1.bin has 7 bytes, not {len(bodies(2)[1])}")
    assert found["payload"] == "no row names the file nobody's"
    assert len(found) == 2


def test_one_table_names_payloads_of_one_place(spark, daemon, parcels, *, url, state):
    parcels.send(b"body")
    land(daemon.url, "parcels", url, state=state, session=spark)
    for elsewhere in ({"out": state}, {"out": f"{url}/other", "state": state}):
        with pytest.raises(InvalidConfiguration, match=f"are in {url}; land into the same place"):
            land(daemon.url, "parcels", session=spark, **elsewhere)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "points",
    [
        pytest.param(["completing", "completed", "landed", "settled"], marks=pytest.mark.torture),
    ],
    ids="-".join,
)
def test_a_driver_killed_around_an_upload_loses_and_doubles_nothing_and_leaves_nothing(
    spark, daemon, manager, parcels, *, url, state, points
):
    sent = {}
    for number, body in enumerate(bodies(20)):
        long = body * 240 if number % 5 == 0 else body
        sent[parcels.send(long, label=f"body {number}")] = long

    for point in points:
        command = [sys.executable, str(DRIVER), daemon.url, str(state), point, "large", url]
        ended = subprocess.run(command, check=False, timeout=400, env=dict(os.environ))
        assert ended.returncode == -signal.SIGKILL
        if point == "completing":
            assert unfinished_uploads("landed")
    summary = land(daemon.url, "parcels", url, state=state, as_="large", session=spark)

    assert summary.duplicates == 0
    assert_landed_once(url, state, sent)
    assert manager.queue("parcels").info().message_count == 0
