"""Payloads as objects of a store: whole or not there, and no unfinished upload stays."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from blake3 import blake3

import dray
from dray.errors import LargeMessageCorrupt, StoreError
from dray.folders.fsspec import file_system
from dray.model.limits import MIB
from dray.spark.landing.objects import StorePayloads
from dray.spark.landing.payload import Expected, PutPayload
from tests.s3_store import objects_at, s3_on_loopback, unfinished_uploads

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BLOCK = 5 * MIB
"""The smallest part that S3 takes."""
LONG = bytes(range(256)) * (6 * MIB // 256)


@pytest.fixture(scope="module")
def bucket():
    with s3_on_loopback("payloads"):
        yield "payloads"


@pytest.fixture
def payloads(bucket):
    return StorePayloads(f"s3://{bucket}/{uuid.uuid4().hex}", BLOCK)


def expected(body):
    return Expected(len(body), blake3(body).hexdigest(), "blake3")


def pulls(body, piece=1_000_000):
    def pull(target):
        for at in range(0, len(body), piece):
            target.write(body[at : at + piece])
        return blake3(body).hexdigest()

    return pull


@pytest.mark.parametrize("body", [b"", b"short", LONG], ids=["empty", "one part", "two parts"])
def test_an_object_is_in_place_when_its_upload_is_completed(payloads, body):
    placement = payloads.placement("name", expected(body))
    assert not placement.is_done()
    seen = []

    def pull(target):
        digest = pulls(body)(target)
        seen.append(objects_at(payloads.url))
        return digest

    placement.fill(pull)

    assert seen == [{}]
    assert objects_at(payloads.url) == {"payload/name": body}
    assert payloads.look_at("name") == (len(body), placement.etag)
    assert placement.etag
    again = payloads.placement("name", expected(body))
    assert again.is_done()
    assert again.etag == placement.etag


@pytest.mark.parametrize("there", [LONG[:-1], LONG[:-1] + b"?", b""])
def test_another_object_in_its_place_is_not_taken_for_it(payloads, there):
    payloads.placement("name", expected(there)).fill(pulls(there))
    placement = payloads.placement("name", expected(LONG))
    assert not placement.is_done()
    placement.fill(pulls(LONG))
    assert placement.is_done()


@pytest.mark.parametrize("body", [b"short", LONG], ids=["one part", "two parts"])
def test_wrong_bytes_leave_no_object_and_no_upload(payloads, bucket, body):
    placement = payloads.placement("name", expected(body))
    with pytest.raises(LargeMessageCorrupt, match="nothing was kept"):
        placement.fill(pulls(body[:-1] + b"?"))
    assert objects_at(payloads.url) == {}
    assert unfinished_uploads(bucket) == []


def test_a_pull_that_fails_leaves_what_was_there(payloads, bucket):
    payloads.placement("name", expected(b"before")).fill(pulls(b"before"))

    def fail(target):
        target.write(LONG)
        raise ConnectionResetError("the line is dead")

    with pytest.raises(StoreError, match="the line is dead"):
        payloads.placement("name", expected(LONG)).fill(fail)
    assert objects_at(payloads.url) == {"payload/name": b"before"}
    assert unfinished_uploads(bucket) == []


def test_a_landing_aborts_the_unfinished_uploads_of_its_own_prefix_and_no_others(payloads, bucket):
    store, root = file_system(payloads.folder)
    other = f"{uuid.uuid4().hex}/payload/theirs"
    keys = [f"{root}/{number}".removeprefix(f"{bucket}/") for number in range(3)]
    for key in [*keys, other]:
        begun = store.call_s3("create_multipart_upload", Bucket=bucket, Key=key)
    assert unfinished_uploads(bucket) == sorted([*keys, other])

    payloads.begin()

    assert unfinished_uploads(bucket) == [other]
    store.call_s3("abort_multipart_upload", Bucket=bucket, Key=other, UploadId=begun["UploadId"])


def test_the_driver_refuses_an_object_that_is_gone_or_another_one(payloads):
    placement = payloads.placement("name", expected(b"body"))
    placement.fill(pulls(b"body"))
    put = PutPayload("name", 4, placement.etag)
    payloads.check([put])

    payloads.placement("name", expected(b"ydob")).fill(pulls(b"ydob"))
    with pytest.raises(StoreError, match=r"the driver finds 4 bytes, ETag .*Nothing was settled"):
        payloads.check([put])
    with pytest.raises(StoreError, match="the driver finds no such object"):
        payloads.check([put._replace(name="gone")])


def test_a_store_that_does_not_answer_is_one_sentence():
    with pytest.raises(StoreError, match="the store at s3://nowhere/x/payload failed: "):
        StorePayloads("s3://nowhere/x").names()


@pytest.mark.torture
def test_a_payload_of_512_mib_passes_into_a_store_through_128_mib_of_memory(
    payloads, daemon, manager
):
    """A process does the work of one task, first with a short payload, then with the long one."""
    block = os.urandom(MIB)
    parcels = dray.LargeMessageQueue(manager.queue("parcels"))
    for blocks in (1, 512):
        parcels.send(iter([block] * blocks))

    program = Path(__file__).with_name("pull_into_store.py")
    command = [sys.executable, str(program), daemon.url, payloads.url]
    done = subprocess.run(command, capture_output=True, check=False, text=True)

    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) <= 128 * MIB
