"""The room that decides about each frame, and what it is handed for that.

The state that belongs to one subject (transactions, links, streams, ...) lives in an object of its
own. They are made here, once for each manager, and each room gets those that it works with. The
table of clients' frames is in `requests/requests.py`, that of streams in `incoming/streams.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from dray.manager.context import Context
from dray.manager.incoming import ArrivingStreams
from dray.manager.peers import (
    Holes,
    Links,
    Sources,
    Strangers,
)
from dray.manager.relay import Relay
from dray.manager.requests import BodyHandler, Handler, Requests
from dray.manager.rights import RIGHTS_OF_CLIENTS, RIGHTS_OF_MANAGERS, Rights
from dray.manager.transactions import Transactions
from dray.manager.works import Works
from dray.wire import frames, peer_frames, transfer_frames
from dray.wire.head import Head

_FIRST_AND_CUT: tuple[type[Head], ...] = (frames.Hello, frames.Cut, frames.Continuation)
FROM_CALLERS = frozenset(
    kind.code for kind in (*RIGHTS_OF_CLIENTS, *RIGHTS_OF_MANAGERS, *_FIRST_AND_CUT)
)
"""Codes of all frames that a caller may say. The head of any other is not even read."""


class Subjects:
    """Objects of the manager, one for each subject, besides its state."""

    def __init__(self, context: Context) -> None:
        """Make them all; those that need others are handed these."""
        self.rights = Rights(context)
        self.works = Works(context)
        self.transactions = Transactions(self.works, self.rights)
        self.holes = Holes(context)
        self.sources = Sources(context)
        self.strangers = Strangers(self.rights)
        self.relay = Relay(context)
        self.links = Links(self.strangers, self.relay, self.works)
        self.streams = ArrivingStreams(self.sources, self.strangers, self.holes)
        self.requests = Requests(
            self.transactions,
            self.links,
            self.strangers,
            self.relay,
            holes=self.holes,
            streams=self.streams,
        )
        self.for_clients = self.requests.without_body
        self.for_managers: Mapping[type[Head], Handler] = {
            **self.streams.without_body,
            peer_frames.ConfirmationsAcked: self.sources.handle_acked,
            peer_frames.RepairAnswer: self.holes.handle_answer,
            transfer_frames.AttachBox: self.relay.handle_attach,
            transfer_frames.Credit: self.relay.handle_credit,
        }
        of_managers: Mapping[type[Head], BodyHandler] = {
            **self.streams.with_body,
            transfer_frames.Post: self.relay.handle_post,
        }
        self.with_body: dict[tuple[str, type[Head]], BodyHandler] = {
            **{("client", kind): handler for kind, handler in self.requests.with_body.items()},
            **{("manager", kind): handler for kind, handler in of_managers.items()},
        }
        self._check_rights()

    def _check_rights(self) -> None:
        """The table of rights has a row for each frame that is decided, and no other."""
        for role, handlers, rows in (
            ("client", self.for_clients, RIGHTS_OF_CLIENTS),
            ("manager", self.for_managers, RIGHTS_OF_MANAGERS),
        ):
            with_body = {kind for whose, kind in self.with_body if whose == role}
            lacking = (handlers.keys() | with_body) ^ rows.keys()
            assert not lacking, f"frames of a {role} without a row or a handler: {lacking}"
