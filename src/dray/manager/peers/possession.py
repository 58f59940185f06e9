"""Proof of possession: a manager shows that it holds the key of its id (`delivery/keys.py`).

    who          shows it by                       until then
    answerer     Welcome                           the caller sends it no frame of a stream
    caller       each OpenStream and EndStream     nothing of a stream counts on its connection

The caller proves each stream and not its connection alone. A process that makes a manager call it,
and passes Hello and Welcome on to a third manager, gets proofs only of the streams that lead to
itself: it cannot speak of the caller's other streams.
"""

from __future__ import annotations

import msgspec

from dray.delivery.keys import ConnectionKey, ManagerKey, id_of
from dray.errors import ProtocolError
from dray.manager.context import Context
from dray.manager.events import CloseSession
from dray.manager.notices import NoticeKind
from dray.manager.rights import Rights
from dray.manager.session import Session
from dray.wire.frames import Hello, Welcome
from dray.wire.peer_frames import ConfirmationsAcked, EndStream, OpenStream, RepairAnswer

_WELCOME = b"welcome"


def hello(context: Context, once: bytes, token: str) -> Hello:
    """The first frame to another manager; `once` is the number of the connection."""
    state = context.state
    identity = state.identity
    incarnations = list(identity.incarnations)
    public = identity.key.public
    head = Hello("manager", state.manager_id, state.name, incarnations, public, once, token)
    return with_copy_proof(identity.key, head)


def with_copy_proof(key: ManagerKey, head: Hello) -> Hello:
    """A Hello by which a copy of the same store knows its caller."""
    return msgspec.structs.replace(head, copy_proof=key.copy_proof(_of_copy(head)))


def is_copy(context: Context, session: Session, head: Hello) -> bool:
    """Whether a manager with this one's own id is a copy of its store, and not its own echo.

    A queue's address that leads back to its own manager, and whoever repeats a Hello of this run,
    name the present incarnation. Raises `ProtocolError` for a caller that does not hold the key.
    """
    identity = context.state.identity
    if not identity.key.proves_copy(head.copy_proof, _of_copy(head)):
        sentence = (
            f"{session.caller} said that it is this very queue manager and did not show its key: it"
            " was refused; another process uses the id"
        )
        context.notices.add(NoticeKind.KEY_NOT_SHOWN, session.caller.place, sentence)
        raise ProtocolError("the caller does not show the key of the queue manager that it names")
    # The one that it was copied from, running on, is in an incarnation of this store's past.
    return head.incarnations[-1:] != identity.incarnations[-1:]


def welcome_with_proof(context: Context, session: Session, head: Hello, answer: Welcome) -> Welcome:
    """Show a manager that calls our key; raises `ProtocolError` if its own does not fit its id."""
    if id_of(head.public) != head.manager_id:
        raise ProtocolError("the id of a queue manager is the fingerprint of its public key")
    own, once = context.state.identity.key, context.state.identity.connection_number()
    session.key = own.answering(once, head.public, head.once)
    if session.key is None:
        raise ProtocolError("the calling queue manager sent a public key that is not valid")
    proof = session.key.proof(_WELCOME)
    return msgspec.structs.replace(answer, public=own.public, once=once, proof=proof)


def key_of_answerer(context: Context, once: bytes, answer: Welcome) -> ConnectionKey | None:
    """The secret of the connection with a manager that answers; None if it shows no key."""
    if id_of(answer.public) != answer.manager_id:
        return None
    key = context.state.identity.key.calling(once, answer.public, answer.once)
    return key if key is not None and key.proves(answer.proof, _WELCOME) else None


def with_proof(key: ConnectionKey, head: OpenStream | EndStream) -> OpenStream | EndStream:
    """A frame that begins or ends a stream, with its proof."""
    return msgspec.structs.replace(head, proof=key.proof(_said(head)))


def check(context: Context, session: Session, head: OpenStream | EndStream) -> None:
    """Raise `ProtocolError` unless the manager whose stream it is has proven a frame."""
    if session.key is None or not session.key.proves(head.proof, _said(head)):
        sentence = (
            f"{session.caller} said that it is this queue manager but did not show its key:"
            " nothing was accepted from it; another process uses the id"
        )
        context.notices.add(NoticeKind.KEY_NOT_SHOWN, session.peer_id, sentence)
        raise ProtocolError("the caller does not show the key of the queue manager that it names")


def shown(rights: Rights, session: Session, head: OpenStream | EndStream) -> None:
    """Take the word of a caller about a stream of its own from now on.

    With the first one the connection is certain to be that manager's, and those that earlier
    incarnations of the same store left behind are closed.
    """
    if not session.proven:
        _close_earlier(rights, session)
    session.proven.add(head.stream)


def may_speak_of(
    context: Context, session: Session, head: ConfirmationsAcked | RepairAnswer
) -> bool:
    """Whether a caller has shown that a stream is its own; if not, its word does not count."""
    if head.stream in session.proven:
        return True
    sentence = (
        f"{session.caller} says that it is this queue manager and named a stream that it had not"
        f" opened: {type(head).__name__} was not taken"
    )
    context.notices.add(NoticeKind.KEY_NOT_SHOWN, session.peer_id, sentence)
    return False


def _close_earlier(rights: Rights, session: Session) -> None:
    earlier = {each.number for each in session.incarnations[:-1]}
    for other in rights.sessions.values():
        if other is session or other.role != "manager" or other.peer_id != session.peer_id:
            continue
        if other.incarnation in earlier or not other.incarnation:
            other.streams.clear()
            rights.context.effects.append(CloseSession(other.number))


def _said(head: OpenStream | EndStream) -> bytes:
    """The bytes that the proof of a frame covers: all of the frame but the proof."""
    return bytes([head.code]) + msgspec.msgpack.encode(msgspec.structs.replace(head, proof=b""))


def _of_copy(head: Hello) -> bytes:
    """The part of a Hello that tells a copy from an echo."""
    return head.once + msgspec.msgpack.encode(head.incarnations)
