"""Errors for lost answers: whether the caller may repeat the call.

The request may have been done or not. A request that only asks, or that changes nothing the second
time, is simply made again. So is one in a transaction, for that is aborted with its connection.
After any other one a repeat could do something twice, so its error says that it is not retryable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dray.errors import DrayError, InDoubt, from_code
from dray.wire.head import Head
from dray.wire.large_frames import UploadDrop
from dray.wire.message_frames import Move, Receive, Send
from dray.wire.queue_frames import (
    AcceptPeer,
    CreateQueue,
    DeleteQueue,
    ForgetPeer,
    PurgeQueue,
    ResolveOutgoing,
)
from dray.wire.token_frames import CreateToken, RevokeToken

Lost = Callable[[Head, DrayError], DrayError]
"""Gives what to raise for a request whose answer was lost, and for the reason of that."""
_DONE_ONCE: Final[dict[type[Head], str]] = {
    Send: "it is not known whether the messages were sent: look for them",
    Receive: "it is not known whether messages were taken: look for them",
    Move: "it is not known whether the message was moved: look where it is",
    CreateQueue: "it is not known whether the queue was created: look for it",
    DeleteQueue: "it is not known whether the queue was deleted: look for it",
    PurgeQueue: "it is not known whether the queue was purged: look at it",
    AcceptPeer: "it is not known whether the peer was accepted: look at `dray peer list`",
    ForgetPeer: "it is not known whether the peer was forgotten: look at `dray peer list`",
    CreateToken: "nobody has the token: look for it with `dray token list`, and revoke it",
    RevokeToken: "it is not known whether the token was revoked: look at `dray token list`",
    ResolveOutgoing: "it is not known whether the outgoing queue was resolved: look at its state",
    UploadDrop: "it is not known whether the upload was dropped: look for it",
}
"""Requests that do something each time, and what is to be said when their answer is lost."""


def answer_lost(head: Head, error: DrayError) -> DrayError:
    """The error for a request whose answer was lost because of an error."""
    advice = _DONE_ONCE.get(type(head))
    if advice is None or _is_harmless(head):
        return error
    return from_code(error.code, f"{error}; {advice}", {**error.fields, "retryable": False})


def send_in_doubt(transaction_id: str, count: int, error: DrayError) -> InDoubt:
    """The error for a send of `count` messages that the queue manager knows by an id."""
    return InDoubt(
        f"the answer to the send {transaction_id} was lost ({error}); before you send again, ask"
        " Manager.outcome() or `dray transaction outcome` for its outcome",
        transaction_id=transaction_id,
        sent=0,
        count=count,
    )


def move_in_doubt(transaction_id: str, count: int, done: int, error: DrayError) -> InDoubt:
    """The error for a move of `count` messages under an id; `done` were moved before it."""
    return InDoubt(
        f"the answer to the move {transaction_id} was lost ({error}); before you move again, ask"
        " Manager.outcome() or `dray transaction outcome` for its outcome",
        transaction_id=transaction_id,
        count=count,
        done=done,
    )


def sent_in_part(error: DrayError, sent: int) -> DrayError:
    """The error that ended a send piece by piece, of which the first messages were sent."""
    done = "1 message before it was" if sent == 1 else f"{sent} messages before it were"
    return from_code(
        error.code,
        f"{error}; {done} sent, so send only the rest",
        {**error.fields, "sent": sent, "retryable": False},
    )


def _is_harmless(head: Head) -> bool:
    match head:
        case Send() | Move():
            return head.transaction != 0
        case Receive():
            return head.peek or head.transaction != 0
        case CreateQueue():
            return head.exist_ok
        case AcceptPeer():
            return bool(head.manager_id)
    return False
