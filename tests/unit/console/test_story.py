"""The story of a message across queue managers: one that does not answer delays no page."""

from __future__ import annotations

import asyncio
import socket

import dray.aio
from dray.console.console import Callers
from dray.console.pages.story import story_of


def test_a_queue_manager_that_does_not_answer_in_time_is_named_and_the_rest_is_told(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("dray.console.pages.story._ANSWER_S", 0.2)
    silent = socket.socket(socket.AF_UNIX)
    silent.bind(str(tmp_path / "silent"))
    # It takes the connection and says nothing.
    silent.listen()
    url = f"dray+unix://{tmp_path / 'silent'}"

    async def tell():
        async with dray.aio.open(tmp_path / "data") as manager:
            orders = await manager.create_queue("orders")
            id = await orders.send(b"x")
            others = {url: Callers(lambda _: dray.aio.connect(url))}
            return await story_of(manager, others, id)

    with silent:
        story = asyncio.run(tell())
    assert story.failures == [f"the queue manager at {url} did not answer within 0.2 s"]
    assert [each.sentence for each in story.chapters][-1] == "It arrived in orders and waits there."


def test_a_queue_that_is_deleted_while_a_story_is_told_is_left_out(tmp_path):
    async def tell():
        async with dray.aio.open(tmp_path / "data") as manager:
            orders = await manager.create_queue("orders")
            id = await orders.send(b"x")
            brief = await manager.create_queue("brief")
            await brief.send(b"y")
            queues = manager.queues

            async def listed_before_one_goes():
                infos = await queues()
                await manager.delete_queue("brief")
                return infos

            manager.queues = listed_before_one_goes
            return await story_of(manager, {}, id)

    story = asyncio.run(tell())
    assert [each.sentence for each in story.chapters][-1] == "It arrived in orders and waits there."
