"""Dead letters of many destinations, sent again at once."""

from __future__ import annotations

import asyncio

import httpx
from starlette.applications import Starlette

import dray.aio
from dray.client.awaited import moving
from dray.console.console import CONSOLE, VISITOR, Callers, Console
from dray.console.pages import letters
from dray.console.visitors import Visitor

DESTINATIONS = 20


def test_dead_letters_of_many_destinations_are_listed_once_to_be_sent_again(tmp_path, monkeypatch):
    contents_of, listed = moving.contents_of, []

    def counted(handle, after):
        listed.append(handle.name)
        return contents_of(handle, after)

    async def send_again():
        async with dray.aio.open(tmp_path / "data") as manager:
            for number in range(DESTINATIONS):
                queue = await manager.create_queue(f"q{number}")
                await queue.send(b"x", use_dead_letter_queue=True)
                await queue.purge()
            await manager.delete_queue("q0")
            console = Console(Callers(lambda _: None), [], read_only=False, name="here")
            console.callers._open[CONSOLE] = manager
            app = Starlette(routes=letters.routes)
            app.state.console, visitor = console, Visitor(CONSOLE)

            async def seen(scope, receive, send):
                await app({**scope, VISITOR: visitor}, receive, send)

            monkeypatch.setattr(moving, "contents_of", counted)
            transport = httpx.ASGITransport(seen)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                answer = await client.post("/deadletters/act", data={"act": "retry-all"})
            assert answer.status_code == 303
            counts = [(await manager.queue(f"q{at}").info()).message_count for at in range(1, 20)]
            return (
                counts,
                visitor.hear(),
                [each.destination for each in await manager.dead_letters()],
            )

    counts, said, left = asyncio.run(send_again())
    assert counts == [1] * (DESTINATIONS - 1)
    assert said[0][0] == "bad"
    assert said[0][1].startswith("1 dead letter for q0 stayed")
    assert said[1] == ("good", "19 dead letters sent again.")
    assert left == ["q0"]
    # Once for the page's choice and once for the check above, each of the two queues.
    assert len(listed) == 4
