"""Requests for one upload: those that look at it are waited for, one that sends it is not."""

from __future__ import annotations

import asyncio

import pytest

from dray.console.http.refusal import HttpRefusal
from dray.console.v1 import resumable
from dray.console.v1.resumable import HttpOrigin, HttpUpload, UploadName
from dray.model.message import Message


@pytest.fixture
def upload():
    origin = HttpOrigin(said="tus", fragment_size=1, digest_kind="blake3", metadata="")
    return HttpUpload(UploadName(f"{1:032x}", 1, 1), 1, origin, Message())


def test_a_request_that_sends_waits_for_one_that_looks(upload):
    async def act():
        looking = asyncio.Event()

        async def look():
            async with upload.alone():
                looking.set()
                await asyncio.sleep(0.01)

        looks = asyncio.ensure_future(look())
        await looking.wait()
        async with upload.sent_by(object()):
            return looks.done()

    assert asyncio.run(act())


def test_a_request_that_sends_is_refused_beside_another_and_does_not_wait_without_end(
    upload, monkeypatch
):
    async def act():
        async with upload.sent_by(object()):
            with pytest.raises(HttpRefusal, match="another request has this upload"):
                await upload.sent_by(object()).__aenter__()
        monkeypatch.setattr(resumable, "SETTLE_S", 0.01)
        async with upload.alone():
            with pytest.raises(HttpRefusal, match="another request has this upload"):
                await upload.sent_by(object()).__aenter__()
        async with upload.sent_by(object()):
            pass

    asyncio.run(act())
