"""TLS handshakes at once: too many end the oldest one, and nobody is kept out."""

import asyncio
from functools import partial

from dray.net import handshakes
from dray.net.handshakes import BoundedHandshakes


async def shaken():
    pass


async def ended():
    """A task ends in one turn of the loop, and its callbacks run in the next."""
    await asyncio.sleep(0)
    await asyncio.sleep(0)


async def silent():
    await asyncio.Event().wait()


def test_the_oldest_handshake_of_a_crowded_host_ends_even_before_it_began(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKES_PER_HOST_MAX", 2)
    closed = []

    async def run():
        under_way = BoundedHandshakes()
        for name, host in [("first", "a"), ("second", "b"), ("third", "b"), ("fourth", "b")]:
            under_way.begin(host, silent(), partial(closed.append, name))
        await ended()
        assert closed == ["second"]
        assert len(under_way) == 3
        under_way.cancel()
        await ended()

    asyncio.run(run())
    assert closed == ["second", "first", "third", "fourth"]


def test_the_oldest_handshake_of_all_makes_room_if_no_host_is_crowded(monkeypatch):
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 2)
    closed = []

    async def run():
        under_way = BoundedHandshakes()
        for host in ("a", "b", "c"):
            under_way.begin(host, silent(), partial(closed.append, host))
        await ended()
        assert closed == ["a"]
        under_way.cancel()

    asyncio.run(run())


def test_a_handshake_that_ends_by_itself_is_not_closed_and_leaves_its_place():
    closed = []

    async def run():
        under_way = BoundedHandshakes()
        under_way.begin("a", shaken(), partial(closed.append, "a"))
        assert len(under_way) == 1
        await ended()
        assert len(under_way) == 0

    asyncio.run(run())
    assert closed == []
