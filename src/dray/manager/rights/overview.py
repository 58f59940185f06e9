"""Tells callers with the right to manage who is connected, by which rules, and what callers did."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from dray.model.access_info import AccessInfo, SessionInfo
from dray.model.limits import SESSIONS_SHOWN_MAX
from dray.wire.frames import AccessState, DescribeAccess

if TYPE_CHECKING:
    from dray.manager.context import Context
    from dray.manager.session import Session


def handle_describe(
    context: Context, session: Session, request_id: int, _head: DescribeAccess
) -> None:
    """Answer with all of it."""
    said = [each for each in context.sessions.values() if each.role]
    shown = [
        SessionInfo(each.caller.name, each.caller.address, each.role)
        for each in islice(said, SESSIONS_SHOWN_MAX)
    ]
    info = AccessInfo(
        is_open=context.access.is_open,
        rules=[str(each) for each in context.access.rules],
        session_count=len(said),
        sessions=shown,
        acts=list(context.acts),
    )
    context.answer(session, request_id, AccessState(info))
