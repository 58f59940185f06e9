"""The callers by which other managers come: the first one of each id, and others after it.

A key shows which manager calls (`possession.py`). The caller says who has brought the key here: a
certificate, a token or an account. A key in other hands, for example from a stolen backup, comes
by another caller, and nothing of it counts until a person accepts it. A manager that comes as
`anyone` has said nothing by which it could be known again.
"""

from __future__ import annotations

from typing import Final

from dray.delivery.events import StreamCondition
from dray.errors import Misuse
from dray.manager.events import CloseSession
from dray.manager.facts import SourceBound
from dray.manager.notices import NoticeKind
from dray.manager.peers import possession
from dray.manager.rights import Rights, note_refusal
from dray.manager.session import Session
from dray.model.callers import ANYONE, NOBODY, OWNER
from dray.model.limits import SOURCES_OF_CALLER_MAX
from dray.model.queue import PeerInfo
from dray.wire.peer_frames import EndStream, OpenStream, StreamRefused

_SAYS_NOTHING: Final = frozenset({ANYONE, NOBODY, OWNER.name})


class BoundCallers:
    """The caller that each manager is bound to; others that came since the start are remembered."""

    def __init__(self, rights: Rights) -> None:
        self.context = rights.context
        self._rights = rights
        self._others: dict[str, str] = {}
        """The other caller that came last, by the id of the manager."""

    def knows(self, source: str) -> bool:
        """Whether a manager of that id is bound to a caller."""
        return source in self.context.state.identity.callers

    def admits(self, session: Session, head: OpenStream | EndStream) -> bool:
        """Whether a frame that begins or ends a stream counts; if not, its source is told why.

        Binds a manager to its first caller. Raises `ProtocolError` for a caller that does not show
        the key of the manager that it names.
        """
        context = self.context
        possession.check(context, session, head)
        code, why = self._why_not(session)
        if not why:
            possession.shown(self._rights, session, head)
            return True
        asked = head.question if isinstance(head, OpenStream) else 0
        context.answer(session, 0, StreamRefused(head.stream, code, why, question=asked))
        note_refusal(self._rights, session, head)
        return False

    def _why_not(self, session: Session) -> tuple[str, str]:
        source, caller = session.peer_id, session.caller
        bound = self.context.state.identity.callers.get(source)
        if bound is None:
            return self._bind(source, caller.name)
        if bound.name == caller.name:
            self._others.pop(source, None)
            return "", ""
        self._others[source] = caller.name
        why = (
            f"{caller} shows the key of the queue manager {source}, which called as {bound.name}"
            f" before: nothing of it is taken until it calls as {bound.name} again, or until"
            f" `dray peer accept {source}` at the destination accepts the new caller"
        )
        self.context.notices.add(NoticeKind.OTHER_CALLER, f"the queue manager {source}", why)
        return StreamCondition.NEED_VALIDATION.value, why

    def _bind(self, source: str, name: str) -> tuple[str, str]:
        context = self.context
        if name in _SAYS_NOTHING:
            return "", ""
        if context.state.identity.bound_to[name] >= SOURCES_OF_CALLER_MAX:
            error = Misuse(
                f"{name} has called as {SOURCES_OF_CALLER_MAX} queue managers already; forget those"
                " that are gone with `dray peer forget` at the destination"
            )
            return error.code, str(error)
        context.record(SourceBound(source, name, context.now_us))
        return "", ""

    def told(self) -> list[PeerInfo]:
        """The managers that are bound, for `dray peer list`; their ids stand for addresses."""
        return [
            PeerInfo(
                address=source,
                manager_id=source,
                caller=bound.name,
                since=bound.since_us / 1e6,
                state=StreamCondition.NEED_VALIDATION if source in self._others else "known",
                found=source if source in self._others else "",
                found_caller=self._others.get(source, ""),
            )
            for source, bound in self.context.state.identity.callers.items()
        ]

    def accept(self, source: str) -> None:
        """Bind a manager to the other caller that came last; one that says nothing frees it."""
        other = self._others.get(source)
        if other is None:
            raise Misuse(
                f"the queue manager {source} has called as no other caller: there is nothing to"
                " accept"
            )
        self._change(source, "" if other in _SAYS_NOTHING else other)

    def forget(self, source: str) -> None:
        """Bind a manager to whichever caller shows its key next."""
        self._change(source, "")

    def _change(self, source: str, name: str) -> None:
        context = self.context
        self._others.pop(source, None)
        context.record(SourceBound(source, name, context.now_us))
        # Streams that the earlier caller has opened end; the manager itself calls again.
        for each in self._rights.sessions.values():
            if each.role == "manager" and each.peer_id == source:
                each.streams.clear()
                each.proven.clear()
                context.effects.append(CloseSession(each.number))
