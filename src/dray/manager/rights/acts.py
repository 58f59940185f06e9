"""Acts that are written to the access log: which frames make them, and what they were done to.

`begun_act` is asked before a frame is decided, because a deleted queue has no name afterwards;
the act counts once the frame was decided without an error. Refusals count as they are raised.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from dray.manager.change import seen_from_here
from dray.manager.events import ActKind, CallerAct
from dray.manager.rights.queues import KEPT
from dray.manager.rights.rights import Rights
from dray.manager.session import Session
from dray.model.access_info import ActInfo
from dray.model.callers import caller_name
from dray.model.names import parse_queue_address
from dray.wire import (
    backup_frames,
    file_frames,
    frames,
    large_frames,
    message_frames,
    peer_frames,
    queue_frames,
    range_frames,
    token_frames,
)
from dray.wire.head import Head

Row = Callable[[Rights, Session, Any], CallerAct | None]


class _ToPeer(Protocol):
    @property
    def address(self) -> str: ...


class _WithQueue(Protocol):
    @property
    def queue(self) -> int: ...


def begun_act(rights: Rights, session: Session, head: Head) -> CallerAct | None:
    """The act that a frame is, if it is one and is decided without an error."""
    row = OF_CLIENTS.get(type(head))
    return None if row is None else row(rights, session, head)


def note_act(rights: Rights, session: Session, act: CallerAct) -> None:
    """Note an act that was decided without an error."""
    if act.kind is ActKind.KEEP:
        session.kept.add(act.subject)
    _note(rights, act)


def note_refusal(rights: Rights, session: Session, head: Head) -> None:
    """Note that a caller lacked a right."""
    subject = "" if isinstance(head, frames.Hello) else _subject(rights, head)
    _note(rights, _act(ActKind.REFUSED, session, head, subject))


def note_opened_stream(rights: Rights, session: Session, head: peer_frames.OpenStream) -> None:
    """Note that a queue manager has opened a stream."""
    _note(rights, _act(ActKind.DELIVER, session, head, head.queue))


def _note(rights: Rights, act: CallerAct) -> None:
    """Have it written to the access log, and remember it; equal acts in a row are counted."""
    rights.context.effects.append(act)
    caller, known = act.caller, rights.acts
    told = ActInfo(
        rights.context.now, str(act.kind), caller.name, caller.address, act.frame, act.subject
    )
    if known:
        newest = known[0]
        repeated = msgspec.structs.replace(told, when=newest.when, times=newest.times)
        if repeated == newest:
            known[0] = msgspec.structs.replace(told, times=newest.times + 1)
            return
    known.appendleft(told)


def _named(rights: Rights, session: Session, head: Head) -> CallerAct:
    return _act(ActKind.MANAGE, session, head, _subject(rights, head))


def _create(rights: Rights, session: Session, head: queue_frames.CreateQueue) -> CallerAct | None:
    """Making sure that a queue is there changes nothing if it is."""
    known = rights.context.state.queues.find(parse_queue_address(head.name).local_name)
    return None if known is not None else _named(rights, session, head)


def _peer(_rights: Rights, session: Session, head: _ToPeer) -> CallerAct:
    return _act(ActKind.MANAGE, session, head, head.address)


def _backup(_rights: Rights, session: Session, head: Head) -> CallerAct:
    return _act(ActKind.KEEP, session, head, "")


def _reads(rights: Rights, session: Session, head: _WithQueue) -> CallerAct | None:
    """Reading a journal or dead-letter queue: once for each session."""
    queue = rights.context.state.queues.get(head.queue)
    if queue is None or queue.kind not in KEPT or queue.name in session.kept:
        return None
    return _act(ActKind.KEEP, session, head, queue.name)


def _act(kind: ActKind, session: Session, head: object, subject: str) -> CallerAct:
    return CallerAct(kind, session.caller, session.number, type(head).__name__, subject)


def _subject(rights: Rights, head: object) -> str:
    """The queue or token that a frame names, or the queue of which it has the number."""
    if isinstance(head, token_frames.CreateToken | token_frames.RevokeToken):
        return caller_name("token", head.name)
    named, numbered = getattr(head, "name", ""), getattr(head, "queue", 0)
    if isinstance(numbered, str):
        named = numbered
    elif numbered:
        queue = rights.context.state.queues.get(numbered)
        return "" if queue is None else queue.name
    return str(seen_from_here(rights.context, named)) if named else ""


OF_CLIENTS: Final[dict[type[Head], Row]] = {
    queue_frames.CreateQueue: _create,
    queue_frames.DeleteQueue: _named,
    queue_frames.PurgeQueue: _named,
    queue_frames.PauseQueue: _named,
    queue_frames.SetQuota: _named,
    queue_frames.ResolveOutgoing: _named,
    token_frames.CreateToken: _named,
    token_frames.RevokeToken: _named,
    queue_frames.AcceptPeer: _peer,
    queue_frames.ForgetPeer: _peer,
    backup_frames.Backup: _backup,
    message_frames.Receive: _reads,
    message_frames.ReceiveTransaction: _reads,
    large_frames.LargeReceive: _reads,
    large_frames.LargeList: _reads,
    range_frames.MeasureRange: _reads,
    range_frames.ReadRange: _reads,
    large_frames.ReadPart: _reads,
    file_frames.CopyPart: _reads,
    message_frames.Move: _reads,
}
"""By request of a client."""
