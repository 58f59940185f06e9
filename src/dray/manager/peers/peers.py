"""Other managers: who calls, who answers at an address, and what a person says of either.

Both ends check identity over time before they lean on a remembered position.

    a manager calls       it says its id and the incarnations of its store, and shows its key
                          (`possession.py`). Streams that it opens are told in which incarnation
                          their last message was sent (`streams.py`). The first caller of each
                          is remembered, and no other one counts (`bound_callers.py`)
    an address answers    the first manager that answers is remembered, durably. Another one is not
                          sent anything until a person accepts it
    a stream diverges     nothing is sent until a person accepts or discards what the queue holds
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from dray.delivery.incoming import StreamKey
from dray.delivery.lineage import INCARNATIONS_KEPT, lineage_of
from dray.delivery.receipts import Told
from dray.errors import Misuse, ProtocolError, StoreFull, in_one_line
from dray.manager.change import (
    KEPT_THERE,
    CommitFact,
    cut_into_portions,
    entries_at,
    note_ends,
    warn_of_end,
)
from dray.manager.context import Context
from dray.manager.entries import extent_of, lookup_id_of, route_of, tail_of, with_class, with_expiry
from dray.manager.events import Peer
from dray.manager.facts import DivergenceResolved, PeerForgotten, PeerMet, Restored, SourceMet
from dray.manager.notices import NoticeKind
from dray.manager.peers import possession
from dray.manager.peers.bound_callers import BoundCallers
from dray.manager.peers.linking import PeerLink, address_of
from dray.manager.queue import DEAD_TRANSACTIONAL, StoredQueue
from dray.manager.rights import Rights
from dray.manager.session import Session
from dray.manager.works import Works
from dray.model.classes import MessageClass
from dray.model.ids import Incarnation
from dray.model.names import parse_manager_address, parse_queue_address
from dray.model.queue import PeerInfo
from dray.wire.frames import Done, Hello, Welcome
from dray.wire.peer_frames import OpenStream, StreamRefused
from dray.wire.queue_frames import AcceptPeer, ForgetPeer, ListPeers, PeerList, ResolveOutgoing

KNOWN: Final = "known"
NEED_VALIDATION: Final = "need-validation"
IN_DOUBT: Final = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
_ID_DIGITS = 32


class Stranger(NamedTuple):
    """A manager that is not the known one: its id, empty without its key, and its certificate."""

    manager_id: str
    caller: str


_NOBODY_ELSE: Final = Stranger("", "")


class Strangers:
    """Findings since the start about the managers at known addresses, and about our own store."""

    def __init__(self, rights: Rights) -> None:
        self.context = rights.context
        self.rights = rights
        self.callers = BoundCallers(rights)
        self.found: dict[Peer, Stranger] = {}
        """The manager that answered last at an address at which another one is known."""
        self.skipped_ahead = False
        """Whether this incarnation found out that the store is an older copy of itself."""

    def why_not_sent_to(self, link: PeerLink, welcome: Welcome, *, shown: bool) -> str:
        """Why the manager that answers at an address is not to be sent anything; else nothing.

        The first one that ever answered there is remembered, if it has `shown` the key of its id,
        with the name in its certificate.
        """
        context, peer = self.context, link.peer
        why = _why_not(context, link, welcome, shown=shown)
        if why:
            self.found[peer] = Stranger(welcome.manager_id if shown else "", link.caller)
            kind = NoticeKind.OTHER_MANAGER if shown else NoticeKind.KEY_NOT_SHOWN
            context.notices.add(kind, address_of(peer), why)
        else:
            self.found.pop(peer, None)
        return why

    def went_back(self) -> None:
        """Give out higher numbers, once in an incarnation: this store is an older copy."""
        context = self.context
        if not self.skipped_ahead:
            self.skipped_ahead = True
            context.record(Restored(0, context.state.restored_at(context.now_us)))

    def has_told(self, session: Session, head: OpenStream) -> bool:
        """Whether all that the source of a stream has heard was told by this store, as it is now.

        A receipt of another copy of it proves that the store is an older copy.
        """
        told = judge_stated(self.context, head.receipt)
        if told is Told.BY_ANOTHER_COPY:
            sentence = (
                f"this queue manager has told its source ({session.caller}) of messages what its"
                " store does not have: the data directory is an older copy, and messages that were"
                " received here since are lost; later ones are taken, so check at the source which"
                " messages are missing"
            )
            subject = f"stream {head.stream} of the queue manager {session.peer_id}"
            self.context.notices.add(NoticeKind.OLDER_COPY, subject, sentence)
        return told is Told.BY_THIS_STORE

    def handle_list(self, session: Session, request_id: int, _head: ListPeers) -> None:
        """Tell which manager is known at each address, and who answers there instead."""
        context = self.context
        found = []
        for peer, known in context.state.identity.peers.items():
            other = self.found.get(peer, _NOBODY_ELSE)
            state = NEED_VALIDATION if peer in self.found else KNOWN
            since = known.since_us / 1e6
            found.append(
                PeerInfo(
                    address=address_of(peer),
                    manager_id=known.manager_id,
                    caller=known.caller,
                    since=since,
                    state=state,
                    found=other.manager_id,
                    found_caller=other.caller,
                )
            )
        context.answer(session, request_id, PeerList(found + self.callers.told()))

    def accept(self, head: AcceptPeer) -> Peer | None:
        """Deliver to another manager at an address, or take a manager by another caller.

        Gives the address; None for a caller.
        """
        context = self.context
        if self.callers.knows(head.address):
            self.callers.accept(head.address)
            return None
        peer = Peer(*parse_manager_address(head.address))
        found = self.found.get(peer, _NOBODY_ELSE)
        manager_id = head.manager_id or found.manager_id
        if not manager_id:
            raise Misuse(
                f"no other queue manager has answered at {head.address}: there is nothing to"
                " accept; `dray peer list` shows the known ones"
            )
        if len(manager_id) != _ID_DIGITS or not all(
            each in "0123456789abcdef" for each in manager_id
        ):
            raise Misuse(
                f"{manager_id!r} is not the id of a queue manager: an id has 32 hexadecimal digits"
            )
        self.found.pop(peer, None)
        # The certificate of a manager that has not answered yet is remembered when it does.
        caller = found.caller if found.manager_id == manager_id else ""
        known = context.state.identity.peers.get(peer)
        sent_in = known.sent_in if known and known.manager_id == manager_id else 0
        context.record(PeerMet(*peer, manager_id, context.now_us, sent_in, caller))
        return peer

    def forget(self, head: ForgetPeer) -> Peer | None:
        """Deliver to the manager that answers next, or take the caller that a manager has next.

        Gives the address; None for a caller.
        """
        context = self.context
        if self.callers.knows(head.address):
            self.callers.forget(head.address)
            return None
        peer = Peer(*parse_manager_address(head.address))
        if peer not in context.state.identity.peers:
            raise Misuse(
                f"no queue manager is known at {head.address}; `dray peer list` shows them"
            )
        self.found.pop(peer, None)
        context.record(PeerForgotten(*peer))
        return peer


def judge_stated(context: Context, receipt: bytes) -> Told:
    """Tell the writer of a receipt that somebody states.

    A receipt of another copy of this store proves that it is an older copy. It gives out higher
    numbers then, and new births of queues, unless it has done so since it parted from that copy:
    then its last restore is later.
    """
    identity = context.state.identity
    told, restored_us = identity.judge(receipt)
    if told is Told.BY_ANOTHER_COPY and identity.restored_us <= restored_us:
        context.record(Restored(0, context.state.restored_at(context.now_us, restored_us)))
    return told


def greet_manager(context: Context, session: Session, head: Hello) -> None:
    """Learn which manager says that it calls, and in which incarnation of its store."""
    if head.manager_id == context.state.manager_id:
        if possession.is_copy(context, session, head):
            sentence = (
                f"{session.caller} called as another queue manager with the same id and was"
                " refused: one data directory was copied from the other; stop one of them, and give"
                " each its own"
            )
            context.notices.add(NoticeKind.OTHER_COPY, session.caller.place, sentence)
        raise ProtocolError(
            "a manager with this manager's own id called: a queue's address leads back to its own"
            " manager, which the option `addresses` has to name, or one data directory was copied"
            " from the other"
        )
    if len(head.incarnations) > INCARNATIONS_KEPT:
        raise ProtocolError(f"a manager says its last {INCARNATIONS_KEPT} incarnations at most")
    session.incarnations = head.incarnations


def refuse_overtaken_stream(
    context: Context, session: Session, newest: Session | None, stream: int, *, question: int
) -> StreamRefused | None:
    """Refuse a stream that another copy of its source has opened on a newer connection.

    Questions of the same copy on an earlier connection are no longer answered.
    """
    if newest is None or newest.number < session.number or not session.incarnation:
        return None
    if session.incarnation in _numbers(newest.incarnations):
        return None
    told = (
        "two copies of its data directory run and call this queue manager; it takes messages from"
        f" the one that called last, {newest.caller}, and not from {session.caller}: stop one of"
        " them"
    )
    context.notices.add(NoticeKind.OTHER_COPY, f"the queue manager {session.peer_id}", told)
    sentence = "another copy of this data directory runs and has called later: stop one of them"
    return StreamRefused(stream, NoticeKind.OTHER_COPY, sentence, question=question)


def note_source(context: Context, session: Session, accepted_in: int) -> int:
    """Note the incarnation of a source that sends something; gives what the fact of it says.

    0 stands for the same incarnation as that of the stream's last message.
    """
    met = context.state.sequences.met.get(session.peer_id)
    if session.incarnations and (not met or met[-1][-1] != session.incarnations[-1]):
        context.record(SourceMet(session.peer_id, session.incarnations))
    return 0 if session.incarnation == accepted_in else session.incarnation


def incarnation_of_last_sent(
    context: Context, session: Session, key: StreamKey
) -> tuple[int, list[Incarnation]]:
    """In which incarnation of its source the last message of a stream was sent.

    With it all incarnations of the copy that sent it, if that is another one than the caller.
    """
    incarnation = context.state.incoming.incarnation(key)
    if (
        not incarnation
        or incarnation == session.incarnation
        or any(each.number == incarnation for each in session.incarnations)
    ):
        return incarnation, []
    return incarnation, lineage_of(
        context.state.sequences.met.get(key.source, ()), incarnation, session.incarnations
    )


def _why_not(context: Context, link: PeerLink, welcome: Welcome, *, shown: bool) -> str:
    peer = link.peer
    if not shown:
        return (
            f"the process that answers there says that it is the queue manager"
            f" {in_one_line(welcome.manager_id[:_ID_DIGITS])} and does not show its key: another"
            " one may have taken the address; nothing is sent until the queue manager itself"
            " answers"
        )
    known = context.state.identity.peers.get(peer)
    if known is None:
        context.record(PeerMet(*peer, welcome.manager_id, context.now_us, caller=link.caller))
        return ""
    if known.manager_id == welcome.manager_id:
        return _why_not_by_certificate(context, link)
    return (
        f"the queue manager {welcome.manager_id} answers there and not {known.manager_id}, which"
        " this queue manager has delivered to: its data directory was replaced or its disk is not"
        " mounted; nothing is sent until that one answers again, or until you accept the new one"
        f" with `dray peer accept {address_of(peer)}`"
    )


def _why_not_by_certificate(context: Context, link: PeerLink) -> str:
    """Why the known manager is not to be sent anything: its certificate names another."""
    peer = link.peer
    known = context.state.identity.peers[peer]
    if known.caller == link.caller:
        return ""
    if not known.caller:
        context.record(PeerMet(*peer, known.manager_id, known.since_us, known.sent_in, link.caller))
        return ""
    return (
        f"the queue manager {known.manager_id} answers there with a certificate for"
        f" {link.caller or 'nobody'} and not for {known.caller} as before; nothing is sent until it"
        " shows the earlier name again, or until you accept the new one with"
        f" `dray peer accept {address_of(peer)}`"
    )


def sending(context: Context, peer: Peer) -> None:
    """Note, before anything is sent to a peer, that this incarnation of the store sends to it."""
    identity = context.state.identity
    known = identity.peers.get(peer)
    if known is not None and known.sent_in != identity.incarnation:
        met = PeerMet(*peer, known.manager_id, known.since_us, identity.incarnation, known.caller)
        context.record(met)


def _numbers(incarnations: list[Incarnation]) -> set[int]:
    return {each.number for each in incarnations}


def handle_resolve_outgoing(
    works: Works, session: Session, request_id: int, head: ResolveOutgoing
) -> None:
    """Deliver what a diverged outgoing queue holds in a new sequence, or make it dead letters."""
    context = works.context
    queue = context.state.queues.named(str(parse_queue_address(head.name)))
    stream = queue.stream
    if stream is None or stream.divergence is None:
        raise Misuse(
            f"the delivery of {queue.name!r} has not diverged: there is nothing to resolve"
        )
    works.carry_on(_resolve(context, queue, discard=head.discard), (session, request_id))


def _resolve(context: Context, queue: StoredQueue, *, discard: bool) -> Generator[None, None, Done]:
    """Work: deliver what a queue holds, or keep it as dead letters first."""
    count = len(queue.index)
    if discard:
        yield from _to_dead_letters(context, queue)
    context.record(DivergenceResolved(queue.number))
    context.follow_up.touch(queue)
    return Done(count)


def _to_dead_letters(context: Context, queue: StoredQueue) -> Iterator[None]:
    """Work: move all that an outgoing queue holds to the dead letters, whatever its senders asked.

    Raises `QuotaExceeded` where the dead letters have no room: nothing is dropped.
    """
    dead = context.state.queues.numbered(DEAD_TRANSACTIONAL)
    lookup_ids = [lookup_id_of(packed) for packed in queue.index.available()]
    for found in cut_into_portions(context, queue, lookup_ids, always_told=True):
        entries = entries_at(queue, found)
        context.state.ledger.check(dead, sum(extent_of(tail_of(each)).length for each in entries))
        fact = CommitFact(context)
        for packed in entries:
            tail = with_class(with_expiry(tail_of(packed), 0), IN_DOUBT)
            if not fact.departures.move(DEAD_TRANSACTIONAL, tail):
                raise StoreFull(
                    "the disk has no room for the dead letters; make room and try again"
                )
        fact.drop(queue, found)
        fact.record()
        _note_discarded(context, queue, entries)
        yield


def _note_discarded(context: Context, queue: StoredQueue, entries: list[bytes]) -> None:
    """Have the operators of the sources of messages read that they are dead letters here."""
    for route, count in Counter(route_of(tail_of(each)) for each in entries).items():
        if route:
            note_ends(context, queue, IN_DOUBT | KEPT_THERE, route=route, count=count)
        else:
            kept_in = DEAD_TRANSACTIONAL
            warn_of_end(context, queue.name, IN_DOUBT, kept_in=kept_in, times=count)
