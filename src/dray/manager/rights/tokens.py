"""Callers that a Hello names: by a token, or for whom the owner acts; requests about tokens."""

from __future__ import annotations

from hashlib import sha256

from dray.errors import AccessDenied, ConnectionLost, Misuse
from dray.manager.context import Context
from dray.manager.events import CallerProven, CloseSession
from dray.manager.facts import TokenSet
from dray.manager.rights.changes import change_access
from dray.manager.rights.rights import Rights
from dray.manager.session import Session
from dray.model.callers import NOBODY, Caller, caller_name
from dray.model.expiry import is_over
from dray.model.limits import TOKENS_MAX
from dray.model.tokens import TokenInfo, digest_of_token
from dray.wire.frames import Done
from dray.wire.token_frames import CreateToken, ListTokens, RevokeToken, TokenList

_DIGEST_BYTES = sha256().digest_size
_MICROSECONDS = 1_000_000


def take_token(context: Context, session: Session, token: str) -> None:
    """Make the holder of a token the caller of a session; raises `AccessDenied`."""
    caller = session.caller
    if not caller.is_private:
        raise AccessDenied(
            "the token came over a connection that others can read, so they may have it: revoke it,"
            " and use drays://, a Unix socket or a loopback address"
        )
    digest = digest_of_token(token)
    tokens = context.state.identity.tokens
    name = next((name for name, each in tokens.items() if each.digest == digest), None)
    if name is None or is_over(tokens[name].expires_us, context.now_us):
        raise AccessDenied(
            "this queue manager does not know the token, or it has expired; ask its owner for"
            " another one (`dray token create`)"
        )
    _become(context, session, caller_name("token", name))


def act_for(context: Context, session: Session, name: str) -> None:
    """Let the owner act for the holder of a certificate, with that holder's rights and no others.

    A server that shook hands with the holder does so, such as a console. Raises `AccessDenied`.
    """
    if not session.caller.owner:
        raise AccessDenied(
            "only the account that runs the queue manager may act for another caller; run this"
            " program as that account, at the same machine"
        )
    kind, _, holder = name.partition(":")
    if kind != "cert" or caller_name(kind, holder) == NOBODY:
        raise Misuse(f"{name!r} is not the holder of a certificate; name one as cert:NAME")
    _become(context, session, name)


def _become(context: Context, session: Session, name: str) -> None:
    """The session has another caller, who is not the owner."""
    was = session.caller
    session.caller = Caller(name, address=was.address, is_private=was.is_private)
    context.effects.append(CallerProven(session.number, session.caller))


def handle_create_token(
    context: Context, session: Session, request_id: int, head: CreateToken
) -> None:
    """Take a token from now on, durably."""
    tokens = context.state.identity.tokens
    if caller_name("token", head.name) == NOBODY:
        raise Misuse(
            f"{head.name!r} cannot be the name of a token; write printable characters without a"
            " blank"
        )
    if head.name in tokens:
        raise Misuse(f"there is a token {head.name!r} already; revoke it, or choose another name")
    if len(head.digest) != _DIGEST_BYTES or head.lasts_us < 0:
        raise Misuse("a token is told by its hash of 32 bytes, and lasts for some time")
    if len(tokens) >= TOKENS_MAX:
        raise Misuse(f"there are {TOKENS_MAX} tokens already; revoke one first")
    expires_us = context.now_us + head.lasts_us if head.lasts_us else 0
    context.record(TokenSet(head.name, head.digest, (context.now_us, expires_us)))
    context.answer(session, request_id, Done())


def handle_list_tokens(
    context: Context, session: Session, request_id: int, _head: ListTokens
) -> None:
    """All tokens, by name; an expired one stays until it is revoked."""
    found = [
        TokenInfo(
            name=name,
            created=each.created_us / _MICROSECONDS,
            expires=each.expires_us / _MICROSECONDS if each.expires_us else None,
        )
        for name, each in sorted(context.state.identity.tokens.items())
    ]
    context.answer(session, request_id, TokenList(found))


def handle_revoke_token(
    rights: Rights, session: Session, request_id: int, head: RevokeToken
) -> None:
    """Take a token no more, durably, and end the sessions of its callers."""
    context = rights.context
    if head.name not in context.state.identity.tokens:
        raise Misuse(f"there is no token {head.name!r}; `dray token list` shows them")
    context.record(TokenSet(head.name))
    _end_sessions(rights, {head.name}, "was revoked")
    context.answer(session, request_id, Done())


def end_expired_tokens(rights: Rights) -> None:
    """End the sessions of callers whose tokens have expired."""
    context = rights.context
    identity = context.state.identity
    if is_over(identity.token_expires_us, context.now_us):
        expired = {
            name
            for name, each in identity.tokens.items()
            if is_over(each.expires_us, context.now_us)
        }
        identity.await_expiry(context.now_us)
        _end_sessions(rights, expired, "has expired")


def _end_sessions(rights: Rights, names: set[str], why: str) -> None:
    context = rights.context
    told = ConnectionLost(
        f"the queue manager ended the connection, because the token shown to it {why}; ask its"
        " owner for another one (`dray token create`)"
    )
    callers = {caller_name("token", name) for name in names}
    ended = [each for each in rights.sessions.values() if each.caller.name in callers]
    for session in ended:
        # Requests of it that are on their way are not decided any more, whenever it closes.
        session.caller = Caller(NOBODY, address=session.caller.address)
        # About no request: it is the reason of the end for all that wait.
        context.refuse(session, 0, told)
        context.effects.append(CloseSession(session.number))
    if ended:
        change_access(rights, rights.access)
