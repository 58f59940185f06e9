"""The source's half of delivery: outgoing queues over connections that this manager dials.

One link a peer carries all outgoing queues that lead there. The delivery cores decide what to say
on it; this module finds the queues, the records and the facts, and decides when to dial.

    down         dial is due, something waits    dialled
    dialled      LinkUp                          connected
    connected    Welcome                         welcomed: streams are told that the link is ready
    connected    nothing within 10 seconds       down, with a HangUp: dialled again later
    any          LinkDown, or nonsense came      down: streams are told, the next dial waits

`peer_links.py` has the links, the queues that lead to each, and the time when it is dialled.
"""

from __future__ import annotations

from typing import assert_never

from dray.delivery.events import (
    Diverged,
    Grown,
    Invited,
    LinkLost,
    LinkReady,
    OlderCopy,
    Open,
    OrderAcked,
    PassOver,
    PeerForgot,
    PeerState,
    Refused,
    Renewed,
    Transmit,
)
from dray.delivery.events import Event as StreamEvent
from dray.delivery.refusal import RefusalNote
from dray.delivery.sequences import may_be_known
from dray.errors import AccessDenied, QueueNotFound, in_one_line
from dray.machine import Tick
from dray.manager.change import is_own, routed_now
from dray.manager.entries import lookup_id_of
from dray.manager.events import HangUp, LinkSend, Peer
from dray.manager.facts import EndForgotten, StreamDiverged, StreamRenewed
from dray.manager.notices import NoticeKind
from dray.manager.peers import peers, possession
from dray.manager.peers.confirmations import act_on, hear_of_ends, is_sensible, note_delivered
from dray.manager.peers.linking import (
    LinkState,
    PeerLink,
    address_of,
    behind,
    diverged,
    forget_old_ends,
    leads_back,
    older_copy,
    refused_for_a_copy,
)
from dray.manager.peers.peer_links import PeerLinks
from dray.manager.peers.peers import Strangers
from dray.manager.peers.repairs import Repairs
from dray.manager.peers.transmission import data, passed
from dray.manager.queue import StoredQueue
from dray.manager.relay import Relay
from dray.manager.transactions import answered_ahead, forget_ahead, take
from dray.manager.works import Works
from dray.model.classes import MessageClass
from dray.model.limits import WELCOME_TIMEOUT_S
from dray.model.queue import DeliveryInfo
from dray.wire.frames import Failed, Hello, Welcome
from dray.wire.peer_frames import (
    AheadKept,
    Confirmations,
    ConfirmationsAcked,
    EndCounts,
    EndStream,
    EndStreamAcked,
    OpenStream,
    RepairWanted,
    StreamRefused,
    StreamState,
)
from dray.wire.stream import Frame
from dray.wire.transfer_frames import Credit, Post, size_of_post

_UNDELIVERABLE = {
    QueueNotFound.code: MessageClass.NACK_BAD_DST_Q,
    AccessDenied.code: MessageClass.NACK_ACCESS_DENIED,
}
"""Refusals of a stream after which nothing of it can be delivered, and what its messages become."""
_BEHIND = NoticeKind.DESTINATION_BEHIND
_GOES_ON = NoticeKind.STREAM_GOES_ON
_OLDER_COPY = NoticeKind.OLDER_COPY
_SENTENCE_MAX = 500
"""Characters of another queue manager's sentence that are shown to an operator."""


class Links:
    """All links of a manager."""

    def __init__(self, strangers: Strangers, relay: Relay, works: Works) -> None:
        """Dial nothing yet; the first tick does for the queues that have something to deliver."""
        self.context = context = works.context
        self.rights = strangers.rights
        self._strangers = strangers
        self._peer_tokens = context.config.peer_tokens
        self._relay = relay
        self._works = works
        self._repairs = Repairs(works)
        self._links = PeerLinks(context, relay)
        self.deadline = self._links.deadline
        """When the next attempt or resend is due."""
        self._suspicious = False
        """Whether a peer has refused something, which may have been a damaged message."""

    def steer(self, queue: StoredQueue, event: StreamEvent) -> None:
        """Give an event to an outgoing queue's stream and do what it decides."""
        stream, route = queue.stream, queue.route
        assert stream is not None, "an outgoing queue has a stream"
        assert route is not None, "an outgoing queue has a route"
        for effect in stream.handle(event, self.context.now):
            match effect:
                case Open(question):
                    link = self._links.to(route.peer)
                    heard = self.context.state.heard.get(queue.number, 0)
                    receipt = stream.receipt_of(link.answerer)
                    head = OpenStream(queue.number, route.remote_queue, question, heard, receipt)
                    self._say_proven(link, head)
                case Transmit() | PassOver():
                    self._send(queue, effect)
                case OrderAcked():
                    if not note_delivered(self.context, queue, effect):
                        # The peer says it again when it is asked again.
                        link = self._links.to(route.peer)
                        self._hang_up(
                            link, "it has accepted more messages than the log can note at once"
                        )
                        return
                case Renewed(sequence_id, judged):
                    self.context.record(StreamRenewed(queue.number, sequence_id, judged))
                    self.context.follow_up.touch(queue)
                case Diverged(sequence_id, upto):
                    self._notice(NoticeKind.DIVERGED, queue, diverged(route.peer, queue.name))
                    now_us = self.context.now_us
                    self.context.record(StreamDiverged(queue.number, sequence_id, upto, now_us))
                case OlderCopy(_, upto):
                    self._notice(_OLDER_COPY, queue, older_copy(route.peer, upto))
                    self._strangers.went_back()
                case PeerForgot(_, upto):
                    self._notice(_BEHIND, queue, behind(route.peer, upto))
                case _:
                    assert_never(effect)
        self._tell_of_refusal(queue, stream.refusals)
        link = self._links.note(queue)
        if stream.wants_link:
            self._links.dial(link)

    def _tell_of_refusal(self, queue: StoredQueue, refusals: RefusalNote) -> None:
        """Say once that the destination refuses a stream, and once that it takes it again."""
        is_refused = refusals.news()
        if is_refused and refusals.current is not None:
            sentence = in_one_line(refusals.current.sentence)
            told = f"its destination refuses this queue: {sentence}"
            self._notice(NoticeKind.STREAM_REFUSED, queue, told[:_SENTENCE_MAX])
        elif is_refused is not None:
            self._notice(_GOES_ON, queue, "its destination takes messages of this queue again")

    def grown(self, queue: StoredQueue) -> None:
        """Something joined an outgoing queue; one that is new to its link is told of the link."""
        if queue.route is None:
            return
        link = self._links.to(queue.route.peer)
        if link.state is LinkState.WELCOMED and queue.number not in link.told:
            link.told.add(queue.number)
            self.steer(queue, LinkReady(link.past, link.answerer))
        else:
            self.steer(queue, Grown())

    def dial_again(self, queue: StoredQueue) -> None:
        """Try the peer of an outgoing queue now, if it is down and something is to be sent."""
        if queue.route is None:
            return
        link = self._links.to(queue.route.peer)
        if link.state is LinkState.DOWN:
            link.dial_at = self.context.now
            if self._links.is_wanted(link):
                self._links.dial(link)

    def hello(self, peer: Peer) -> Hello:
        """The first frame on a new connection to a peer."""
        link = self._links.to(peer)
        link.once, link.key = self.context.state.identity.connection_number(), None
        return possession.hello(self.context, link.once, self._peer_tokens.get(peer, ""))

    def show(self, peer_tokens: dict[Peer, str]) -> None:
        """Show other tokens to peers from now on."""
        self._peer_tokens = peer_tokens

    def up(self, peer: Peer, caller: str = "") -> None:
        """The connection was made; the Welcome is still to come."""
        link = self._links.to(peer)
        link.caller = caller
        link.changed(LinkState.CONNECTED, "", self.context.now)
        link.welcome_by = self.context.now + WELCOME_TIMEOUT_S

    def down(self, peer: Peer, reason: str, jitter: float | None = None) -> None:
        """The connection failed or ended: nothing is lost, all is tried again later."""
        link = self._links.to(peer)
        link.jitter = link.jitter if jitter is None else jitter
        if link.state is LinkState.DOWN:
            return
        reason = leads_back(peer) if is_own(self.context, peer) else reason
        link.changed(LinkState.DOWN, reason, self.context.now)
        link.told.clear()
        self._relay.down(peer)
        link.dial_at = link.backoff.failed(self.context.now, link.jitter)
        for queue in self._links.leading_to(link):
            self.context.state.awaiting.order_acks.pop(queue.number, None)
            forget_ahead(self.context, queue)
            self.steer(queue, LinkLost())

    def frame(self, peer: Peer, frame: Frame) -> None:
        """Take what a peer says on a link that this manager dialled."""
        link = self._links.to(peer)
        match frame.head:
            case Welcome():
                self._welcomed(link, frame.head)
            case Post() | Credit():
                self._relayed(peer, frame)
            case StreamState():
                self._stated(peer, frame.head)
            case StreamRefused():
                self._refused(peer, frame.head)
            case Confirmations():
                self._confirmed(peer, frame.head)
            case AheadKept():
                self._answered_ahead(peer, frame.head)
            case EndCounts():
                self._counted(link, frame.head)
            case RepairWanted():
                self._repair(link, frame.head)
            case EndStreamAcked(stream):
                end = self.context.state.stream_ends.get(stream)
                if end is not None and end.peer == peer:
                    self.context.record(EndForgotten(stream))
            case Failed(_, sentence):
                self._suspicious = True
                self._note_failure(link, sentence)
                self._hang_up(link, sentence)
            case _:
                self._hang_up(link, f"it answered with {type(frame.head).__name__}")

    def _relayed(self, peer: Peer, frame: Frame) -> None:
        """Pass on what two programs say to each other."""
        if isinstance(frame.head, Credit):
            self._relay.link_credit(peer, frame.head.size)
            return
        assert isinstance(frame.head, Post)
        credit = Credit(size_of_post(frame.head, frame.body))
        self.context.effects.append(LinkSend(peer, credit))
        self._relay.post(frame.head, frame.body)

    def _welcomed(self, link: PeerLink, welcome: Welcome) -> None:
        """Go on with the manager that answers, if it is the one that is known at its address."""
        context, peer = self.context, link.peer
        link.key = possession.key_of_answerer(context, link.once, welcome)
        shown = link.key is not None
        why = self._strangers.why_not_sent_to(link, welcome, shown=shown)
        for queue in self._links.leading_to(link):
            if queue.stream is not None:
                queue.stream.held = bool(why)
        if why:
            self._hang_up(link, why)
            return
        link.past, link.answerer = context.state.identity.past(peer), welcome.manager_id
        link.changed(LinkState.WELCOMED, "", context.now)
        link.backoff.succeeded()
        self._relay.up(peer)
        for queue in self._links.leading_to(link):
            link.told.add(queue.number)
            self.steer(queue, LinkReady(link.past, link.answerer))
        self._say_ends(link, context.state.stream_ends.of(peer))

    def tick(self) -> None:
        """Dial what is due, give up on who does not answer, let streams look at their timers."""
        now = self.context.now
        for queue in self._links.due_streams():
            self.steer(queue, Tick())
        forget_old_ends(self.context)
        for link in self._links.all():
            if link.state is LinkState.CONNECTED and link.welcome_by <= now:
                sentence = f"it did not answer our Hello within {WELCOME_TIMEOUT_S:g} seconds"
                self._hang_up(link, sentence)
            elif (
                link.state is LinkState.DOWN and link.dial_at <= now and self._links.is_wanted(link)
            ):
                self._links.dial(link)

    def say_ends(self) -> None:
        """Tell of streams that ended in this turn, to whom is connected; others when they are."""
        stream_ends = self.context.state.stream_ends
        for end in stream_ends.take_news():
            link = self._links.to(end.peer)
            if link.state is LinkState.WELCOMED:
                self._say_ends(link, [end.stream])

    def delivery_of(self, queue: StoredQueue) -> DeliveryInfo | None:
        """The state of the delivery of an outgoing queue, for those who look."""
        if queue.route is None:
            return None
        link = self._links.to(queue.route.peer)
        return link.delivery_of(queue, routed_now(self.context, queue))

    def _say_ends(self, link: PeerLink, streams: list[int]) -> None:
        """Tell a peer of streams that have ended."""
        for each in streams:
            self._say_proven(link, EndStream(each))

    def _say_proven(self, link: PeerLink, head: OpenStream | EndStream) -> None:
        """Say a frame of which the peer must know that it is this manager's."""
        assert link.key is not None, "only a peer that is welcomed is told of streams"
        self.context.effects.append(LinkSend(link.peer, possession.with_proof(link.key, head)))

    def _stated(self, peer: Peer, state: StreamState) -> None:
        queue = self._of_peer(peer, state.stream)
        if queue is not None and not self._invents(queue, state):
            queue.destination_transactional = state.transactional
            if not self.context.state.awaiting.must_hear_first(state):
                position = state.sequence_id, state.upto
                said = PeerState(*position, state.question, state.incarnation, state.met)
                self.steer(queue, said._replace(receipt=state.receipt))
            if state.room:
                self.steer(queue, Invited())

    def _invents(self, queue: StoredQueue, said: StreamState | StreamRefused) -> bool:
        """Hang up on a peer that tells of a sequence that this manager cannot have begun."""
        assert queue.stream is not None, "an outgoing queue has a stream"
        assert queue.route is not None, "an outgoing queue has a route"
        if may_be_known(said.sequence_id, queue.stream.sequence_id):
            return False
        link = self._links.to(queue.route.peer)
        self._hang_up(link, "it told of a sequence that was never begun")
        return True

    def _answered_ahead(self, peer: Peer, head: AheadKept) -> None:
        """Take word of what was sent ahead; send messages again that were not taken for it."""
        queue = self._of_peer(peer, head.stream)
        if queue is not None and answered_ahead(self.context, queue, head):
            self.steer(queue, Invited())

    def _word_came(self, peer: Peer, stream: int) -> None:
        """Take the order ack that waited, if nothing that it covers is unheard of any more."""
        ack = self.context.state.awaiting.order_acks.get(stream)
        if isinstance(ack, StreamRefused):
            self._refused(peer, ack)
        elif ack is not None:
            self._stated(peer, ack)

    def _of_peer(self, peer: Peer, stream: int) -> StoredQueue | None:
        """The outgoing queue of a stream; a peer may only speak of its own (KB 830639)."""
        queue = self.context.state.queues.get(stream)
        if queue is None or queue.route is None or queue.route.peer != peer:
            return None
        assert queue.stream is not None, "an outgoing queue has a stream"
        return queue if queue.stream.divergence is None else None

    def _notice(self, kind: NoticeKind, queue: StoredQueue, sentence: str) -> None:
        self.context.notices.add(kind, queue.name, sentence)

    def _note_failure(self, link: PeerLink, sentence: str) -> None:
        did = "ended" if link.state is LinkState.WELCOMED else "refused"
        told = f"the queue manager there {did} the connection: {in_one_line(sentence)}"
        subject = address_of(link.peer)
        self.context.notices.add(NoticeKind.LINK_REFUSED, subject, told[:_SENTENCE_MAX])

    def leave(self, peer: Peer) -> None:
        """Hang up on a manager that answers at an address, unless it is known there."""
        link, known = self._links.to(peer), self.context.state.identity.peers.get(peer)
        if link.state is LinkState.WELCOMED and (not known or known.manager_id != link.answerer):
            self._hang_up(link, "a person decides anew which queue manager is known there")

    def _hang_up(self, link: PeerLink, reason: str) -> None:
        self.context.effects.append(HangUp(link.peer))
        self.down(link.peer, reason)

    def _refused(self, peer: Peer, refusal: StreamRefused) -> None:
        """Wait, or if nothing can be delivered there, let all go with the reason (R39)."""
        queue = self._of_peer(peer, refusal.stream)
        if queue is None or queue.stream is None or self._invents(queue, refusal):
            return
        if self.context.state.awaiting.must_hear_first(refusal):
            return
        asked, why = refusal.question, _UNDELIVERABLE.get(refusal.error)
        position = refusal.sequence_id, refusal.upto
        if refusal.error == NoticeKind.OTHER_COPY and not queue.stream.is_stale(asked):
            self._notice(NoticeKind.OTHER_COPY, queue, refused_for_a_copy(peer))
        said = Refused(refusal.sentence, *position, asked, refusal.error, final=why is not None)
        said = said._replace(incarnation=refusal.incarnation, met=refusal.met)
        self.steer(queue, said._replace(receipt=refusal.receipt))
        if queue.stream.divergence is not None:
            return
        if why is not None and not queue.stream.is_stale(asked):
            lookup_ids = [lookup_id_of(packed) for packed in queue.index.available()]
            queue.stream.refusals.waiting_refused(len(lookup_ids))
            take(self._works, queue, lookup_ids, why)

    def _confirmed(self, peer: Peer, head: Confirmations) -> None:
        """Act once on what a destination tells of messages it has accepted."""
        queue = self._of_peer(peer, head.stream)
        if queue is not None:

            def finished(heard: int) -> None:
                taken = ConfirmationsAcked(head.stream, heard)
                self.context.effects.append(LinkSend(peer, taken))
                self._word_came(peer, head.stream)

            self._works.carry_on(act_on(self.context, queue, head, finished=finished))

    def _counted(self, link: PeerLink, head: EndCounts) -> None:
        """Warn of messages that ended at the destination and that it only counts."""
        queue = self._of_peer(link.peer, head.stream)
        if not is_sensible(head.counts):
            self._hang_up(link, "it counted impossible ends of messages")
        elif queue is not None:
            hear_of_ends(self.context, queue, head.counts)

    def _repair(self, link: PeerLink, head: RepairWanted) -> None:
        """Send again what a destination lacks of a large message."""
        queue = self._of_peer(link.peer, head.stream)
        if queue is not None and not self._repairs.begin(queue, link.peer, head):
            self._hang_up(link, "it asked for too many repairs at once")

    def _send(self, queue: StoredQueue, effect: Transmit | PassOver) -> None:
        """Send what a stream has to say next, if there is anything."""
        context = self.context
        assert queue.route is not None, "an outgoing queue has a route"
        peers.sending(context, queue.route.peer)
        said = (
            passed(context, queue, effect)
            if isinstance(effect, PassOver)
            else data(context, queue, effect, check=self._suspicious)
        )
        context.effects.extend(LinkSend(queue.route.peer, *each) for each in said)
