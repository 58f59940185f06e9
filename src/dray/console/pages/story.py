"""The story of one message, as far as running queue managers can tell it.

A queue manager keeps no history of a message. Its queues, journals, dead letters, outgoing queues
and acknowledgments are asked, each by the id, which is the same at every queue manager.
`dray inspect story` reads the log of one that is stopped, and tells more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from dray.aio import Manager
from dray.console.console import Callers
from dray.errors import AccessDenied, DrayError, MessageNotFound, QueueNotFound
from dray.model.classes import MessageClass, QueueKind
from dray.model.ids import split_id
from dray.model.message import Message
from dray.model.names import DEAD_LETTER_QUEUES
from dray.model.queue import ManagerInfo, QueueInfo
from dray.model.queued import reason_of
from dray.model.words import counted

_SEARCHED_MAX: Final = 10_000
"""Messages of a queue in which acknowledgments are looked for; a longer one would be read whole."""
_ANSWER_S: Final = 10.0
"""Another queue manager that has not told its part by then is left out of the story."""
_NOT_HERE: Final = (MessageNotFound, QueueNotFound, AccessDenied)
"""The queue has no such message, is gone by now, or shows this caller nothing."""
_NEGATIVE: Final = 0x8000
_OF_RECEIVE: Final = 0x4000


class Chapter(NamedTuple):
    """One thing that is known. `when` in seconds since the epoch."""

    when: float | None
    sentence: str
    queue: str = ""
    position: int = 0
    manager: str = ""
    """The name of the other queue manager that tells it; empty for the console's own."""


class WholeStory(NamedTuple):
    """All chapters in the order of time, who was asked, and why somebody did not answer."""

    chapters: list[Chapter]
    asked: list[str]
    failures: list[str]


async def story_of(manager: Manager, others: Mapping[str, Callers], id: str) -> WholeStory:
    """Everything that is known of a message by its id, here and at other queue managers.

    Raises `Misuse` for what is no id.
    """
    split_id(id)
    here, info = await _chapters(manager, id), await manager.info()
    asked, failures = [info], []
    known = {(each.when, each.sentence) for each in here}
    for told in await asyncio.gather(*(_told(*each, id) for each in others.items())):
        if isinstance(told, str):
            failures.append(told)
            continue
        info, chapters = told
        asked.append(info)
        # Both ends know where it was sent.
        here += [
            each._replace(manager=info.name)
            for each in chapters
            if (each.when, each.sentence) not in known
        ]
    here = [each._replace(sentence=_with_names(each.sentence, asked)) for each in here]
    here.sort(key=lambda each: each.when or 0.0)
    return WholeStory(here, [each.name for each in asked], failures)


async def _told(url: str, callers: Callers, id: str) -> tuple[ManagerInfo, list[Chapter]] | str:
    """Ask another queue manager; give its chapters, or a sentence that says why there are none."""
    try:
        async with asyncio.timeout(_ANSWER_S):
            manager = await callers.manager()
            return await manager.info(), await _chapters(manager, id)
    except TimeoutError:
        return f"the queue manager at {url} did not answer within {_ANSWER_S:g} s"
    except DrayError as error:
        return f"the queue manager at {url} was not heard: {error}"


def _with_names(sentence: str, asked: list[ManagerInfo]) -> str:
    """Queue managers by their names, where these are known."""
    for each in asked:
        sentence = sentence.replace(f"queue manager {each.id}", f"queue manager {each.name}")
    return sentence


async def _chapters(manager: Manager, id: str) -> list[Chapter]:
    found: list[Chapter] = []
    for info in await manager.queues():
        if info.message_count:
            found += await _in_queue(manager, info, id)
    return found


async def _in_queue(manager: Manager, info: QueueInfo, id: str) -> list[Chapter]:
    queue = manager.queue(info.name, raw=True)
    found: list[Chapter] = []
    with suppress(*_NOT_HERE):
        found += _sent(await queue.peek_by_id(id, 0), info)
    if info.message_count > _SEARCHED_MAX:
        return found
    try:
        told = await queue.peek_by_correlation_id(id, 0)
    except _NOT_HERE:
        return found
    if told.message_class != MessageClass.NORMAL:
        found.append(
            Chapter(told.arrived_time, _acknowledged(told), info.name, told.lookup_id or 0)
        )
    return found


def _sent(message: Message, info: QueueInfo) -> list[Chapter]:
    goal = f" to {message.destination}" if message.destination else ""
    return [
        Chapter(message.sent_time, f"It was sent{goal} at the queue manager {message.source}."),
        Chapter(message.arrived_time, _stands(message, info), info.name, message.lookup_id or 0),
    ]


def _stands(message: Message, info: QueueInfo) -> str:
    if info.name in DEAD_LETTER_QUEUES:
        return f"It became a dead letter: {reason_of(message.message_class)}."
    if info.kind is QueueKind.JOURNAL:
        return f"It was received, and a copy is kept in {info.name}."
    if info.kind is QueueKind.SYSTEM:
        return f"A copy is kept in {info.name}."
    if info.kind is QueueKind.OUTGOING:
        return f"It waits in {info.name} for its destination, whose delivery is {info.state}."
    times = counted(message.abort_count, "time")
    back = f", and was given back {times}" if message.abort_count else ""
    return f"It arrived in {info.name} and waits there{back}."


def _acknowledged(told: Message) -> str:
    if told.message_class & _NEGATIVE:
        return f"Its sender was told that it ended: {reason_of(told.message_class)}."
    what = "was received" if told.message_class & _OF_RECEIVE else "reached its queue"
    return f"Its sender was told that it {what}."
