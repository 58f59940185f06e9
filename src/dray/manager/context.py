"""The context of a turn: what every part of the manager works with, and nothing of one subject.

State of one subject lives in an object of that subject, which `dispatch.py` makes. A test holds the
members of `Context` (`tests/house/test_rooms.py`); docs/decisions/0273 says why each is here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dray.errors import DrayError, StorePoisoned
from dray.manager.disk import FollowedFiles, RoomLeft
from dray.manager.events import Answer, Body, Effect, Into, ManagerConfig
from dray.manager.facts import Fact, encode_fact
from dray.manager.follow_up import FollowUp
from dray.manager.notices import Notices
from dray.manager.own_messages import OwnMessages
from dray.manager.session import Session
from dray.manager.state import State
from dray.store.store import Store
from dray.wire.frames import failure
from dray.wire.head import Head

MICROSECONDS = 1_000_000
_answer_of: Callable[[tuple[object, ...]], Answer] = partial(tuple.__new__, Answer)


class Context:
    """The tools of a turn. Volatile but for `state`, which only `record` changes."""

    def __init__(
        self,
        state: State,
        store: Store,
        config: ManagerConfig,
        now: float,
        *,
        notices: Notices,
        files: FollowedFiles | None = None,
    ) -> None:
        """Lay everything out; `files` follow each fact."""
        self.state = state
        self.store = store
        self.config = config
        self.now = now
        self.now_us = int(now * MICROSECONDS)
        """The turn's time in microseconds."""
        self.effects: list[Effect] = []
        self.notices = notices
        """Notices for the operator; the daemon writes them to its log."""
        self.room = RoomLeft(store, config.low_water_bytes)
        self.own_messages = OwnMessages(state, store, self.record)
        self.follow_up = FollowUp(state.queues)
        self._files = files

    def begin_turn(self, now: float) -> list[Effect]:
        """Begin anew, at that time or later; gives the list that the turn fills."""
        self.now = now = max(self.now, now)
        self.now_us = int(now * MICROSECONDS)
        self.effects = []
        self.room.departed = 0
        return self.effects

    def record(self, fact: Fact) -> None:
        """Make a fact true, and durable with the turn's sync."""
        self.state.apply(fact)
        self.store.append(encode_fact(fact))
        if self._files is not None:
            self._files.follow(fact)

    def answer(
        self,
        session: Session,
        request_id: int,
        head: Head,
        body: Body = (),
        *,
        held: bool = True,
        into: Into | None = None,
    ) -> None:
        """Answer a request."""
        self.effects.append(_answer_of((session.number, request_id, head, body, held, into)))

    def refuse(self, session: Session, request_id: int, error: DrayError) -> None:
        """Answer a request with an error; one that poisons the store ends everything instead."""
        if isinstance(error, StorePoisoned):
            raise error
        self.effects.append(Answer(session.number, request_id, failure(error)))
