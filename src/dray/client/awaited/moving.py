"""Messages moved to another queue by the queue manager, at once; dead letters retried and dropped.

No body passes through the client. Each request is one transaction of the queue manager, under a
number of ours: if its answer is lost, the outcome can be asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial

from dray.client.awaited.contents import contents_of
from dray.client.connections.link import Link, QueueHandle
from dray.client.connections.lost_answers import move_in_doubt
from dray.errors import (
    AccessDenied,
    DrayError,
    InDoubt,
    MessageNotFound,
    Misuse,
    QueueNotFound,
)
from dray.model.arguments import no_sense
from dray.model.ids import ManagerId, join_id
from dray.model.limits import MOVED_AT_ONCE_MAX
from dray.model.names import DEAD_LETTER_QUEUES, SYSTEM, parse_queue_address
from dray.model.queued import QueuedMessage
from dray.wire.frames import Done
from dray.wire.head import Head
from dray.wire.message_frames import MoveMessages


async def move_messages(link: Link, source: str, target: str, ids: Iterable[str] | None) -> int:
    """Move the messages of these ids, or all; return their number, a large message as one."""
    handle, goal = _handle(link, source), str(parse_queue_address(target))
    if goal == handle.name:
        raise no_sense("target", "another queue than source", target)
    found = await _chosen(handle, ids)
    return await _move(handle, [each.lookup_id for each in found], goal)


async def dead_letters_of(link: Link) -> list[QueuedMessage]:
    """All dead letters, those of the plain queue first; raises `AccessDenied`."""
    try:
        return [
            letter
            for name in DEAD_LETTER_QUEUES
            async for letter in contents_of(QueueHandle(link, name), 0)
        ]
    except QueueNotFound as error:
        # They are always there: a queue that a caller may not see is refused as a missing one.
        raise AccessDenied(
            "you may not see the dead letters; the owner of the queue manager can allow it with a"
            " rule ([[access]]) that gives the right `keep`"
        ) from error


async def retry_letters(link: Link, ids: Iterable[str] | None, to: str | None) -> int:
    """Send dead letters again, each to its queue or all to one; return their number."""
    return await retry_listed(link, await _letters(link, ids), to)


async def retry_listed(link: Link, letters: Iterable[QueuedMessage], to: str | None) -> int:
    """Send again dead letters that the caller has just listed: no other message takes their places.

    Raises `MessageNotFound` if one is gone.
    """
    connection = await link.connection()
    own = str(connection.manager_id)
    if to is not None:
        to = str(parse_queue_address(to))
        await connection.open_queue(to)
    goals: dict[tuple[str, str], list[int]] = {}
    for each in letters:
        goals.setdefault((each.queue, to or _destination(each, own)), []).append(each.lookup_id)
    done = 0
    for (queue, target), positions in goals.items():
        done += await _move(QueueHandle(link, queue), positions, target)
    return done


async def drop_letters(link: Link, ids: Iterable[str]) -> int:
    """Drop dead letters; return their number."""
    letters = await _letters(link, ids)
    done = 0
    for queue, group in itertools.groupby(letters, lambda each: each.queue):
        done += await _move(QueueHandle(link, queue), [each.lookup_id for each in group], None)
    return done


async def _letters(link: Link, ids: Iterable[str] | None) -> list[QueuedMessage]:
    return _picked(await dead_letters_of(link), ids, "among the dead letters")


async def _chosen(handle: QueueHandle, ids: Iterable[str] | None) -> list[QueuedMessage]:
    found = [each async for each in contents_of(handle, 0)]
    return _picked(found, ids, f"in {handle.name!r}")


def _picked(
    found: list[QueuedMessage], ids: Iterable[str] | None, where: str
) -> list[QueuedMessage]:
    """The messages with these ids, in the order of their queues."""
    if ids is None:
        return found
    wanted = dict.fromkeys(ids)
    picked = [each for each in found if each.id in wanted]
    lacking = wanted.keys() - {each.id for each in picked}
    if lacking:
        raise MessageNotFound(f"no message {where} has the id {min(lacking)!r}; nothing was done")
    return picked


def _destination(letter: QueuedMessage, own: str) -> str:
    """The queue that a dead letter was sent to; another manager's names mean nothing here."""
    there = letter.destination
    if there is None or there.startswith(SYSTEM) or (letter.source != own and "://" not in there):
        raise Misuse(f"dead letter {letter.id} does not say where it was sent; name a queue for it")
    return there


async def _move(handle: QueueHandle, positions: Sequence[int], target: str | None) -> int:
    """Move or drop messages, a bounded number in each transaction.

    Without any, the queue manager is asked all the same: it refuses a target that is not there.
    """
    done = 0
    for first in range(0, max(1, len(positions)), MOVED_AT_ONCE_MAX):
        portion = positions[first : first + MOVED_AT_ONCE_MAX]
        connection = await handle.link.connection()
        number = await connection.numbers()
        to = 0 if target is None else (await connection.open_queue(target)).number
        transaction_id = join_id(ManagerId(connection.manager_id), number)
        _, frame = await handle.call(
            partial(_request, list(portion), to, number),
            Done,
            connection=connection,
            lost=partial(_lost, transaction_id, len(portion), done),
        )
        assert isinstance(frame.head, Done)
        done += frame.head.count
    return done


def _request(positions: list[int], to: int, number: int, queue: int) -> MoveMessages:
    return MoveMessages(queue, positions, to, number)


def _lost(transaction_id: str, count: int, done: int, _: Head, error: DrayError) -> InDoubt:
    return move_in_doubt(transaction_id, count, done, error)


def _handle(link: Link, name: str) -> QueueHandle:
    return QueueHandle(link, str(parse_queue_address(name)))
