"""Boxes: what one program posts to another passes through here, unread and unkept.

A program *attaches* a box and then gets what is posted to it, over the connection on which it has
attached it. The box of a queue of another manager is attached there too, over the link that leads
to that queue, so that posts find their way back over links that only one side can make. Nothing
here is durable and nothing is promised: what is posted to a box that nobody has, over a link that
is down, or to a connection that takes too slowly is dropped. So nothing can pile up either.

    client A --Post--> manager A --Post over its link--> manager B --Post--> client B
    client A <--Post-- manager A <--Post on that link--- manager B <--Post-- client B
"""

from __future__ import annotations

from dray.errors import AccessDenied, Misuse
from dray.manager.change import next_hop
from dray.manager.context import Context
from dray.manager.events import LinkSend, Peer
from dray.manager.session import Session
from dray.model.arguments import no_sense
from dray.model.limits import BOX_CHARACTERS_MAX, BOXES_MAX, BOXES_SHARE, RELAYED_BYTES_MAX
from dray.model.names import QueueAddress, parse_queue_address
from dray.model.places import Amounts
from dray.wire.frames import Done
from dray.wire.transfer_frames import AttachBox, Credit, Post, size_of_post


class Meter:
    """Bytes that were passed on to one connection and of which it has not said that it has them."""

    def __init__(self) -> None:
        self.under_way = 0

    def spend(self, size: int) -> bool:
        """Whether so much more may go; one frame may go whatever its size."""
        if self.under_way and self.under_way + size > RELAYED_BYTES_MAX:
            return False
        self.under_way += size
        return True

    def gain(self, size: int) -> None:
        """So much has been taken."""
        self.under_way = max(0, self.under_way - size)


class Relay:
    """The session that has each box, and the links over which boxes are reached. Volatile."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._owners: dict[str, tuple[Session, Peer | None, str]] = {}
        """By box: who has it, and the peer and queue under which it is attached further on."""
        self._owned: Amounts[str] = Amounts()
        """The number of boxes of each caller."""
        self._sessions: dict[int, Meter] = {}
        self._links: dict[Peer, Meter] = {}
        """Links that are up."""
        self.leading: Amounts[Peer] = Amounts()
        """The number of boxes attached over each link."""

    def wants(self, peer: Peer) -> bool:
        """Whether a link to that peer is needed."""
        return peer in self.leading

    def wanted(self) -> list[Peer]:
        """All peers to which a link is needed."""
        return list(self.leading) if self.leading else []

    def attach(self, session: Session, head: AttachBox) -> None:
        """Give a box to a session; raises `Misuse`. The last one of its caller to ask has it."""
        if not 0 < len(head.box) <= BOX_CHARACTERS_MAX:
            raise Misuse(f"the name of a box has 1 to {BOX_CHARACTERS_MAX} characters")
        address = parse_queue_address(head.queue)
        owner = self._owners.get(head.box)
        if owner is not None and owner[0].caller.name != session.caller.name:
            raise AccessDenied("the box belongs to another caller; take another name for yours")
        self._drop(head.box, tell=False)
        if len(self._owners) >= BOXES_MAX:
            raise Misuse(f"a queue manager knows at most {BOXES_MAX} boxes of file transfers")
        caller, share = session.caller, BOXES_MAX // BOXES_SHARE
        if not caller.owner and self._owned[caller.name] >= share:
            raise Misuse(f"{caller.name} has {share} boxes of transfers here; close some first")
        peer, queue = _way(self.context, address)
        self._owners[head.box] = (session, peer, queue)
        self._owned.add(caller.name, 1)
        session.boxes.add(head.box)
        if peer is not None:
            self.leading.add(peer, 1)
            if peer in self._links:
                self.context.effects.append(LinkSend(peer, AttachBox(head.box, queue)))

    def detach(self, session: Session, box: str) -> None:
        """Take a box back from a session, if it is still its."""
        owner = self._owners.get(box)
        if owner is not None and owner[0] is session:
            self._drop(box, tell=True)

    def closed(self, session: Session) -> None:
        """A session is over, and with it its boxes."""
        for box in sorted(session.boxes):
            self.detach(session, box)
        self._sessions.pop(session.number, None)

    def up(self, peer: Peer) -> None:
        """A link is welcome: attach there what is reached over it."""
        self._links[peer] = Meter()
        for box, (_, leading, queue) in self._owners.items():
            if leading == peer:
                self.context.effects.append(LinkSend(peer, AttachBox(box, queue)))

    def down(self, peer: Peer) -> None:
        """A link is down; what was on it is lost."""
        self._links.pop(peer, None)

    def post(self, head: Post, body: memoryview) -> None:
        """Pass something on towards its box, or drop it."""
        peer, queue = (
            _way(self.context, parse_queue_address(head.queue)) if head.queue else (None, "")
        )
        size = size_of_post(head, body)
        if peer is not None:
            meter = self._links.get(peer)
            if meter is not None and meter.spend(size):
                further = Post(head.box, head.message, queue)
                self.context.effects.append(LinkSend(peer, further, _kept(body)))
            return
        owner = self._owners.get(head.box)
        if owner is not None:
            session = owner[0]
            if self._sessions.setdefault(session.number, Meter()).spend(size):
                last = Post(head.box, head.message)
                self.context.answer(session, 0, last, _kept(body), held=False)

    def credit(self, session: Session, size: int) -> None:
        """A session has taken what was passed on to it."""
        meter = self._sessions.get(session.number)
        if meter is not None:
            meter.gain(size)

    def link_credit(self, peer: Peer, size: int) -> None:
        """A peer has taken what was passed on to it."""
        meter = self._links.get(peer)
        if meter is not None:
            meter.gain(size)

    def _drop(self, box: str, *, tell: bool) -> None:
        owner = self._owners.pop(box, None)
        if owner is None:
            return
        session, peer, queue = owner
        self._owned.add(session.caller.name, -1)
        session.boxes.discard(box)
        if peer is not None:
            self.leading.add(peer, -1)
            if tell and peer in self._links:
                self.context.effects.append(LinkSend(peer, AttachBox(box, queue, attached=False)))

    def handle_attach(self, session: Session, request_id: int, head: AttachBox) -> None:
        """Attach or detach a box."""
        context = self.context
        if head.attached:
            self.attach(session, head)
        else:
            self.detach(session, head.box)
        if session.role == "client":
            context.answer(session, request_id, Done(), held=False)

    def handle_post(
        self, session: Session, _request_id: int, head: Post, *, body: memoryview
    ) -> None:
        """Pass on what a client or a manager that called has posted."""
        context = self.context
        if session.role == "manager":
            context.answer(session, 0, Credit(size_of_post(head, body)), held=False)
        self.post(head, body)

    def handle_credit(self, session: Session, _request_id: int, head: Credit) -> None:
        """Note that a session has taken what was passed on to it."""
        if head.size < 0:
            raise no_sense("size", "a number of bytes from 0 on", head.size)
        self.credit(session, head.size)


def _kept(body: memoryview) -> tuple[bytes, ...]:
    """A body's memory is used again after the event, and this leaves later."""
    return (bytes(body),) if len(body) else ()


def _way(context: Context, address: QueueAddress) -> tuple[Peer | None, str]:
    """The peer over which a queue is reached and what it is called there; None if it is here."""
    if not address.remote:
        return None, ""
    return next_hop(context, address)
