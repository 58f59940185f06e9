"""`Manager.access()` tells rules of access, open connections, and the last acts of callers."""

from __future__ import annotations

import msgspec


class SessionInfo(msgspec.Struct, frozen=True):
    """A connection that is open now: its caller, from where, and whether a queue manager calls."""

    caller: str
    address: str
    role: str
    """"client" or "manager"."""


class ActInfo(msgspec.Struct, frozen=True):
    """Something that a caller did. `when` is the last time, in seconds since the epoch.

    `act` is "refused", "manage", "keep" or "deliver", as in the access log; `frame` names the
    request, and `subject` the queue or the manager that it was done to.
    """

    when: float
    act: str
    caller: str
    address: str
    frame: str
    subject: str
    times: int = 1


class AccessInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of access, the connections that are open, and the last acts of callers.

    `is_open` says that a caller also has each right that no rule restricts. `acts` are the last 200
    at most, the newest first. Those before the last start come from the access log; a queue manager
    without an audit knows none of them.
    """

    is_open: bool
    rules: list[str]
    session_count: int
    sessions: list[SessionInfo]
    acts: list[ActInfo]
