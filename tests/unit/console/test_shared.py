"""Answers that browsers share: one question for all of them."""

from __future__ import annotations

import asyncio

from dray.console.pages.asking import Shared


class Connection:
    """Something that can be a key."""


async def _asked():
    shared, connection, asked = Shared(), Connection(), []

    async def ask():
        asked.append(1)
        await asyncio.sleep(0)
        return len(asked)

    together = await asyncio.gather(*(shared.get(connection, "queues", ask, 60) for _ in range(10)))
    other = await shared.get(Connection(), "queues", ask, 60)
    shared.forget(connection)
    anew = await shared.get(connection, "queues", ask, 60)
    await shared.close()
    return together, other, anew


def test_ten_browsers_cost_one_question_and_a_change_asks_anew():
    assert asyncio.run(_asked()) == ([1] * 10, 2, 3)
