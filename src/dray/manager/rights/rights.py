"""The callers of a manager: their sessions, the rules that hold, their leases and acts lately.

Callers with the right to manage are told who is connected, by which rules, and what callers did.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from dray.manager.context import Context
from dray.manager.facts import NumbersLeased
from dray.manager.session import Session
from dray.model.access_info import AccessInfo, ActInfo, SessionInfo
from dray.model.leases import Leases
from dray.model.limits import ACTS_REMEMBERED_MAX, NUMBERS_LEASED, SESSIONS_SHOWN_MAX
from dray.wire.token_frames import AccessState, DescribeAccess


class Rights:
    """By what one manager decides about its callers. Volatile."""

    def __init__(self, context: Context) -> None:
        """Begin with the rules and the acts that the daemon has read."""
        self.context = context
        self.sessions: dict[int, Session] = {}
        """The connections that were accepted, each of one caller."""
        self.access = context.config.access
        """The rules; `changes.py` says what comes of others."""
        self.leases = Leases(context.state.next_number)
        """Numbers of messages and transactions, by the caller that leased them."""
        self.acts: deque[ActInfo] = deque(context.config.acts, maxlen=ACTS_REMEMBERED_MAX)
        """Acts of callers lately, the newest first."""

    def lease(self, caller: str) -> tuple[int, int]:
        """Lease numbers to a caller, durably; gives the first of them, and how many there are."""
        first = self.context.state.next_number
        self.leases.lease(first, caller)
        self.context.record(NumbersLeased(first + NUMBERS_LEASED))
        return first, NUMBERS_LEASED


def handle_describe_access(
    rights: Rights, session: Session, request_id: int, _head: DescribeAccess
) -> None:
    """Answer with all of it."""
    said = [each for each in rights.sessions.values() if each.role]
    shown = [
        SessionInfo(each.caller.name, each.caller.address, each.role)
        for each in islice(said, SESSIONS_SHOWN_MAX)
    ]
    info = AccessInfo(
        is_open=rights.access.is_open,
        rules=[str(each) for each in rights.access.rules],
        session_count=len(said),
        sessions=shown,
        acts=list(rights.acts),
    )
    rights.context.answer(session, request_id, AccessState(info))
