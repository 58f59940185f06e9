"""A file that a browser takes: back in its queue when the browser is gone."""

from __future__ import annotations

import asyncio

import pytest

import dray.aio
from dray.console.console import CONSOLE
from dray.console.sample.received import ReceivedFile, ReceivedFiles
from dray.console.visitors import Visitor
from dray.errors import Misuse

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x08\0\0\0\x08 and more"


@pytest.fixture
def run(tmp_path):
    """Run a coroutine that gets a queue of large messages with one in it."""

    def run(act):
        async def whole():
            async with dray.aio.open(tmp_path / "data") as manager:
                await manager.create_queue("statusq")
                queue = await manager.create_queue("q")
                large = dray.aio.LargeMessageQueue(queue)
                await large.send(PNG, label="p.png")
                await act(large)

        asyncio.run(whole())

    return run


async def held(large, visitor):
    return await ReceivedFile.of_large(visitor, await large.receive(timeout=10))


def test_a_file_that_nobody_reads_goes_back_to_its_queue(run, monkeypatch):
    monkeypatch.setattr("dray.console.sample.received._UNREAD_S", 0.01)

    async def act(large):
        files, visitor = ReceivedFiles(), Visitor(CONSOLE)
        file = await held(large, visitor)
        files.add(file)
        async with large.receive(timeout=30) as again:
            assert again.label == "p.png"
        with pytest.raises(Misuse, match="it is in its queue again"):
            files.find(visitor, file.id)
        await files.close()

    run(act)


def test_a_file_that_is_read_stays(run, monkeypatch):
    async def act(large):
        files, visitor = ReceivedFiles(), Visitor(CONSOLE)
        file = await held(large, visitor)
        files.add(file)
        for _ in range(2):
            chunks = [chunk async for chunk in files.find(visitor, file.id).chunks()]
            assert b"".join(chunks) == PNG
        assert file.picture == "image/png"
        files.release(file)
        await file.keep()
        with pytest.raises(dray.ReceiveTimeout):
            await large.receive(timeout=0)

    run(act)


def test_the_end_of_the_console_gives_all_files_back(run):
    async def act(large):
        files, visitor = ReceivedFiles(), Visitor(CONSOLE)
        files.add(await held(large, visitor))
        await files.close()
        async with large.receive(timeout=10) as again:
            assert again.label == "p.png"

    run(act)


def test_only_so_many_files_are_held(run):
    async def act(large):
        files, visitor = ReceivedFiles(), Visitor(CONSOLE)
        file = await held(large, visitor)
        for _ in range(8):
            files.check_room()
            other = ReceivedFile(visitor)
            files.add(other)
        with pytest.raises(Misuse, match="too many"):
            files.check_room()
        await file.give_back()
        await files.close()

    run(act)
