"""Connections of the console to its queue manager, one for each caller."""

from __future__ import annotations

import asyncio

from dray.console.console import Callers
from dray.console.http.limits import GREETINGS_MAX, Greetings
from dray.model.callers import Credential


class Connected:
    async def close(self):
        pass


def test_a_caller_waits_for_no_connection_of_another():
    async def act():
        answers = asyncio.Event()

        async def connect(caller):
            if caller == slow_one:
                await answers.wait()
            made.append(caller.token)
            return Connected()

        callers, made, slow_one = Callers(connect), [], Credential("waits")
        slow = [asyncio.ensure_future(callers.manager(slow_one)) for _ in range(3)]
        await asyncio.wait(slow, timeout=0.01)
        await asyncio.wait_for(callers.manager(Credential("hers")), 10)
        answers.set()
        assert len({*await asyncio.gather(*slow)}) == 1
        return made

    assert asyncio.run(act()) == ["hers", "waits"]


def test_one_connection_of_a_caller_is_made_at_a_time_though_the_first_fails():
    async def act():
        under_way, most = 0, 0

        async def greet():
            nonlocal under_way, most
            async with greetings.of("caller"):
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(0.001)
                under_way -= 1
                raise OSError

        greetings, asking = Greetings(), []
        for _ in range(5):
            asking.append(asyncio.ensure_future(greet()))
            await asyncio.sleep(0.0007)
        await asyncio.wait(asking)
        return most

    assert asyncio.run(act()) == 1


def test_so_many_callers_are_greeted_at_a_time():
    async def act():
        under_way, most = 0, 0

        async def greet(name):
            nonlocal under_way, most
            async with greetings.of(name):
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(0.001)
                under_way -= 1

        greetings = Greetings()
        await asyncio.gather(*map(greet, range(2 * GREETINGS_MAX)))
        return most

    assert asyncio.run(act()) == GREETINGS_MAX
