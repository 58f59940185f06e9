"""Work at the queue manager that may take its time, but not while the queue manager is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from dray.console.http import limits
from dray.console.http.refusal import HttpRefusal
from dray.errors import DrayError

Result = TypeVar("Result")


async def unless_silent(
    ask: Callable[[], Awaitable[object]], work: Coroutine[Any, Any, Result], *, changes: bool
) -> Result:
    """Do something; raise `HttpRefusal` once the queue manager leaves a short question unanswered.

    `changes` says that the work may still be done then. It is cancelled, and nobody waits for its
    end, which may need the queue manager.
    """
    doing = asyncio.create_task(work)
    doing.add_done_callback(_seen)
    try:
        while not (await asyncio.wait((doing,), timeout=limits.ANSWER_S))[0]:
            try:
                with suppress(DrayError):
                    async with asyncio.timeout(limits.ANSWER_S):
                        await ask()
            except TimeoutError as error:
                if not doing.done():
                    raise silent(changes=changes) from error
        return doing.result()
    finally:
        doing.cancel()


def silent(*, changes: bool) -> HttpRefusal:
    """The answer while the queue manager does not answer."""
    told = f"the queue manager did not answer within {limits.ANSWER_S:g} s"
    if changes:
        return HttpRefusal(
            504, "in-doubt", f"{told}, so nobody knows whether this was done; look at its log, and"
            " at the queue before you repeat it",
        )  # fmt: skip
    return HttpRefusal(503, "connection-lost", f"{told}; look at its log")


def _seen(doing: asyncio.Task[Any]) -> None:
    """An error of work that was cancelled has no reader."""
    if not doing.cancelled():
        doing.exception()
