"""What must become of every message, kept by an observer who only hears what clients are told.

Written without a look at the manager. Of every message it knows what its sender asked for; it hears
which messages receivers took or rejected for good, and, when the world is at rest, what lies in
dead-letter queues, journals and administration queues. From the first it predicts the rest: each
message of a committed transaction ends exactly once, and its sender is told exactly what table 1.6
says. Unless its sender said no, a message that another manager refused is a dead letter unasked.

    end                     dead letter (if asked)    acknowledgments (if asked)       journal
    received                none                      ACK_REACH_QUEUE, ACK_RECEIVE     source's
    rejected                NACK_RECEIVE_REJECTED     ACK_REACH_QUEUE, the same class  -
    anything else           its class                 what fits that class             -

A message may be in doubt besides: its source heard nothing in time and keeps a dead letter of class
NACK_RECEIVE_TIMEOUT_AT_SENDER, in place of what the end itself would have put there. So it is of
one whose outgoing queue was deleted under way; of what surely never left that is NACK_PURGED, and
what its destination would have told besides may not be heard. A manager that forwards may be in
doubt in the same way: it counts that for the source, where the end may be counted as well.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from dray.model.classes import Acknowledge, MessageClass
from dray.model.message import Message
from dray.testing.promises import BrokenPromiseError
from tests.worlds.shadow import Sent

RECEIVED = MessageClass.ACK_RECEIVE
REJECTED = MessageClass.NACK_RECEIVE_REJECTED
REACHED = MessageClass.ACK_REACH_QUEUE
IN_DOUBT = MessageClass.NACK_RECEIVE_TIMEOUT_AT_SENDER
FULL = MessageClass.NACK_Q_EXCEED_QUOTA
DEAD = "system$;deadxact"
_REFUSALS = {FULL, MessageClass.NACK_BAD_DST_Q, MessageClass.NACK_NOT_TRANSACTIONAL_Q}
"""Of what nobody asked to keep, a source keeps what a destination has refused by these."""
_NEGATIVE, _OF_RECEIVE = 0x8000, 0x4000
_CLASS = 0xFFFF
"""Beside it a count tells where a message was kept."""
_CLOCK_TOLERANCE_S = 0.002


class Asked(NamedTuple):
    """One message as it was sent: by whose manager, to which queue of which, asking for what."""

    sent: Sent
    source: str
    destination: str
    queue: str
    record: bytes
    message: Message
    when: float
    transactional: bool
    told_at: str
    """The manager in whose administration queue acknowledgments are wanted."""

    @property
    def remote(self) -> bool:
        """Whether it travels between managers."""
        return self.source != self.destination

    @property
    def loose(self) -> bool:
        """Whether its queue is not transactional."""
        return self.queue == "loose"

    @property
    def place(self) -> str:
        """Its queue, by full name."""
        return f"{self.destination}/{self.queue}"


class MessageEnds:
    """The observer."""

    def __init__(self) -> None:
        """Begin with nothing sent."""
        self.asked: dict[str, Asked] = {}
        self.ends: dict[str, MessageClass] = {}
        self.dead: dict[str, list[tuple[str, MessageClass]]] = {}
        self.journaled: dict[str, list[str]] = {}
        self.told: dict[str, list[tuple[str, MessageClass]]] = {}
        self.purged: set[str] = set()
        """Queues that were purged at any time, by full name."""
        self.abandoned: set[tuple[str, str]] = set()
        """Outgoing queues that were deleted at any time: at which manager, to which queue."""
        self.counted: Counter[str] = Counter()
        """By manager, how many of its messages destinations say have ended unreceived."""
        self.counted_doubts: Counter[str] = Counter()
        """By manager, how many of its messages managers that forward say to be in doubt."""
        self.clocks_jump = False
        self.sent: list[Sent] = []
        self.known: Counter[str] = Counter()
        """How often each kind of end was seen, to see that worlds reach them all."""

    def begin(self, producer: str, manager: str, number: int) -> Sent:
        """A producer begins a transaction."""
        self.sent.append(Sent(producer, manager, number, len(self.sent)))
        return self.sent[-1]

    def add(self, message_id: str, asked: Asked) -> None:
        """A producer sends a message."""
        self.asked[message_id] = asked
        asked.sent.groups.setdefault(asked.place, []).append(message_id)

    def saw(self, place: str, message_id: str, record: bytes) -> Asked:
        """A reader is shown a message in a queue (or a sub-queue of it)."""
        asked = self._of(message_id)
        if asked.place != place.partition(";")[0]:
            raise BrokenPromiseError(f"{message_id} was sent to {asked.place}, is in {place}")
        if asked.record != record:
            raise BrokenPromiseError(f"{message_id} in {place} is not what was sent")
        if asked.sent.status in ("open", "aborted", "refused"):
            raise BrokenPromiseError(f"{message_id} is visible, it was {asked.sent.status}")
        if message_id in self.ends:
            raise BrokenPromiseError(f"{message_id} came back to {place}: {self.ends[message_id]}")
        return asked

    def ended(self, message_id: str, end: MessageClass) -> None:
        """A receiver's transaction committed: the message was received, or rejected."""
        if message_id in self.ends:
            raise BrokenPromiseError(f"{message_id} was taken twice")
        self.ends[message_id] = end

    def found_dead(self, where: str, message_id: str, why: MessageClass, when: float) -> None:
        """A message lies in a dead-letter queue."""
        asked = self._of(message_id)
        self.dead.setdefault(message_id, []).append((where, why))
        times = self._times_to_live(asked)
        timeouts = (MessageClass.NACK_RECEIVE_TIMEOUT, MessageClass.NACK_REACH_QUEUE_TIMEOUT)
        early = times and when < asked.when + min(times) - _CLOCK_TOLERANCE_S
        if why in timeouts and early and not self.clocks_jump:
            raise BrokenPromiseError(f"{message_id} expired before its time")

    def found_journaled(self, where: str, message_id: str) -> None:
        """A message lies in a computer journal."""
        self._of(message_id)
        self.journaled.setdefault(message_id, []).append(where)

    def found_told(self, where: str, message_id: str, what: MessageClass) -> None:
        """An acknowledgment message lies in an administration queue."""
        self._of(message_id)
        if what == IN_DOUBT:
            raise BrokenPromiseError(f"{message_id} was told to be in doubt, which nobody is told")
        self.told.setdefault(message_id, []).append((where, what))

    def told_of(self, manager: str, message_class: int, count: int) -> None:
        """A manager hears of so many of its messages that they ended, or are in doubt."""
        in_doubt = message_class & _CLASS == IN_DOUBT
        (self.counted_doubts if in_doubt else self.counted)[manager] += count

    def check(self) -> None:
        """Judge a world that has come to rest."""
        for sent in self.sent:
            if sent.status not in ("committed", "aborted", "refused"):
                raise BrokenPromiseError(f"transaction {sent.id} of {sent.producer} has no outcome")
        for message_id, asked in self.asked.items():
            try:
                if self._was_refused(message_id, asked):
                    self._check_refused(message_id, asked)
                elif asked.sent.status == "aborted":
                    self._check_nothing(message_id)
                elif asked.sent.status == "committed":
                    self._check_end(message_id, asked)
            except BrokenPromiseError as error:
                error.add_note(self.story(message_id))
                raise
        self._check_counted()

    def _check_counted(self) -> None:
        """No count is too high; it may be too low, for counts are not kept.

        A message may be counted as in doubt once, and once as what became of it; it may then also
        have been received.
        """
        committed = {
            message_id: asked
            for message_id, asked in self.asked.items()
            if asked.sent.status == "committed"
        }
        unreceived = Counter(
            asked.source
            for message_id, asked in committed.items()
            if self.ends.get(message_id) != RECEIVED
        )
        for manager, count in self.counted.items():
            self.known["counted"] += count
            if count > unreceived[manager]:
                raise BrokenPromiseError(
                    f"{manager} was told of {count} ends, {unreceived[manager]} messages ended"
                )
        doubtful = Counter(
            asked.source for asked in committed.values() if self._may_be_in_doubt(asked)
        )
        for manager, count in self.counted_doubts.items():
            self.known["doubts counted"] += count
            if count > doubtful[manager]:
                raise BrokenPromiseError(
                    f"{manager} was told of {count} doubts, {doubtful[manager]} are possible"
                )

    def _may_be_in_doubt(self, asked: Asked) -> bool:
        return asked.remote and bool(self._times_to_live(asked) or self._is_abandoned(asked))

    def story(self, message_id: str) -> str:
        """Everything known of a message, for who has to find out."""
        asked = self.asked[message_id]
        message = asked.message
        return (
            f"{message_id} from {asked.source} to {asked.place}: acknowledge"
            f" {message.acknowledge!r} to {message.administration_queue}, dead letter"
            f" {message.use_dead_letter_queue}, journal {message.use_journal_queue}, to reach"
            f" {message.time_to_reach_queue}, to be received {message.time_to_be_received}, in"
            f" {asked.sent.id} at {asked.when:.3f}; end {self.ends.get(message_id)!r}, dead"
            f" {self.dead.get(message_id)}, told {self.told.get(message_id)}, journaled"
            f" {self.journaled.get(message_id)}"
        )

    def _check_nothing(self, message_id: str) -> None:
        for seen in (self.ends, self.dead, self.journaled, self.told):
            if message_id in seen:
                raise BrokenPromiseError(f"{message_id} had an end, its transaction was aborted")

    def _was_refused(self, message_id: str, asked: Asked) -> bool:
        """Whether a full queue refused it, which its sender need not have heard (semantics 3.4)."""
        if asked.sent.status == "refused":
            return True
        alone_here = not asked.transactional and not asked.remote and asked.queue == "small"
        traces = message_id in self.dead or message_id in self.told
        return asked.sent.status == "aborted" and alone_here and traces

    def _check_refused(self, message_id: str, asked: Asked) -> None:
        dead = self.dead.get(message_id, [])
        told = [what for _, what in self.told.get(message_id, [])]
        self.known["refused"] += 1
        if message_id in self.ends or message_id in self.journaled:
            raise BrokenPromiseError(f"{message_id} was refused, and was received")
        wanted = [(f"{asked.source}/{DEAD}", FULL)] * bool(asked.message.use_dead_letter_queue)
        if dead != wanted:
            raise BrokenPromiseError(f"{message_id} was refused and is in {dead}, not in {wanted}")
        self._check_told(message_id, asked, FULL, told)

    def _check_end(self, message_id: str, asked: Asked) -> None:
        dead = self.dead.get(message_id, [])
        told = [what for _, what in self.told.get(message_id, [])]
        doubts = [each for each in dead if each[1] == IN_DOUBT]
        # A dead letter that its destination keeps does not take the one in doubt away.
        if len(dead) - len(doubts) > 1 or len(doubts) > 1 or len(dead) > 1 + asked.loose:
            raise BrokenPromiseError(f"{message_id} is dead twice: {dead}")
        end = self.ends.get(message_id)
        finals = {why for _, why in dead} | {each for each in told if each != REACHED}
        finals.discard(IN_DOUBT)
        if end is not None and finals - {end}:
            raise BrokenPromiseError(f"{message_id} was {end!r}, and is called {finals}")
        if len(finals) > 1:
            raise BrokenPromiseError(f"{message_id} ended more than once: {finals}")
        end = end or next(iter(finals), None)
        self.known[end.name if end is not None else "silent"] += 1
        if doubts:
            self.known[IN_DOUBT.name] += 1
        self._check_cause(message_id, asked, end)
        self._check_dead(message_id, asked, end)
        self._check_told(message_id, asked, end, told)
        self._check_journal(message_id, asked, end)

    def _check_cause(self, message_id: str, asked: Asked, end: MessageClass | None) -> None:
        """Nothing ends otherwise than by what its sender or somebody at its queue did."""
        if end in (RECEIVED, REJECTED):
            if message_id not in self.ends:
                raise BrokenPromiseError(f"{message_id} is called {end!r}, and nobody did it")
            return
        causes = self._causes(asked)
        if not causes:
            raise BrokenPromiseError(f"{message_id} was committed and never received")
        if end is not None and end not in causes:
            raise BrokenPromiseError(f"{message_id} is called {end!r}, it can only be {causes}")

    def _causes(self, asked: Asked) -> set[MessageClass]:
        causes = set()
        if asked.message.time_to_be_received is not None:
            causes.add(MessageClass.NACK_RECEIVE_TIMEOUT)
        if asked.remote and self._times_to_live(asked):
            causes.add(MessageClass.NACK_REACH_QUEUE_TIMEOUT)
        if asked.place in self.purged:
            causes.add(MessageClass.NACK_Q_PURGED)
        if self._is_abandoned(asked):
            causes.add(MessageClass.NACK_PURGED)
        if asked.queue == "missing":
            causes.add(MessageClass.NACK_BAD_DST_Q)
        if asked.queue == "passing":
            causes |= {MessageClass.NACK_Q_DELETED, MessageClass.NACK_BAD_DST_Q}
        if asked.queue == "small":
            causes.add(FULL)
        if asked.loose and asked.transactional:
            causes.add(MessageClass.NACK_NOT_TRANSACTIONAL_Q)
        return causes

    def _check_dead(self, message_id: str, asked: Asked, end: MessageClass | None) -> None:
        dead = self.dead.get(message_id, [])
        if not asked.message.use_dead_letter_queue:
            self._check_refused_dead(message_id, asked, end)
            return
        if IN_DOUBT in [why for _, why in dead]:
            times = self._times_to_live(asked) or self._is_abandoned(asked)
            if not asked.remote or not times:
                raise BrokenPromiseError(f"{message_id} cannot be in doubt")
        elif dead and end == RECEIVED:
            raise BrokenPromiseError(f"{message_id} was received and is in {dead}")
        elif not dead and end != RECEIVED:
            raise BrokenPromiseError(f"{message_id} ended as {end!r}, and is no dead letter")
        for where, _ in dead:
            # What is not transactional stays where it could not be delivered (semantics 1.8).
            kept_there = asked.remote and where.startswith(f"{asked.destination}/")
            if not where.startswith(f"{asked.source}/") and not (kept_there and asked.loose):
                raise BrokenPromiseError(f"{message_id} of {asked.source} is in {where}")

    def _check_refused_dead(self, message_id: str, asked: Asked, end: MessageClass | None) -> None:
        """What nobody asked to keep is kept all the same if another manager refused it.

        At its source, or at the manager on the way whose message was refused.
        """
        dead = self.dead.get(message_id, [])
        unasked = asked.message.use_dead_letter_queue is None and asked.remote
        self.known["kept unasked"] += bool(dead)
        if dead and not (unasked and dead[0][1] in _REFUSALS):
            raise BrokenPromiseError(f"{message_id} is in {dead}, nobody asked for it")
        if dead and (end == RECEIVED or dead[0][0].startswith(f"{asked.destination}/")):
            raise BrokenPromiseError(f"{message_id} ended as {end!r} and is in {dead}")
        if not unasked or dead:
            return
        causes = {end} if end is not None else self._causes(asked)
        timed = self._times_to_live(asked)  # Perhaps its time was over before its source heard.
        if causes <= _REFUSALS and not (timed or self._is_abandoned(asked)):
            raise BrokenPromiseError(f"{message_id} was refused, and is no dead letter")

    def _check_told(
        self, message_id: str, asked: Asked, end: MessageClass | None, told: list[MessageClass]
    ) -> None:
        wanted = asked.message.acknowledge
        place = f"{asked.told_at}/acks"
        places = {where for where, _ in self.told.get(message_id, [])}
        if places - {place}:
            raise BrokenPromiseError(f"{message_id} was acknowledged to {places}, not to {place}")
        if len(set(told)) != len(told):
            raise BrokenPromiseError(f"{message_id} was acknowledged twice: {told}")
        if end is None:
            # Nothing was asked that could tell, or only whether it would get there.
            if told and not wanted & Acknowledge.POSITIVE_ARRIVAL:
                raise BrokenPromiseError(f"{message_id} was told {told}, nobody asked for it")
            return
        expected = set()
        arrived = not end & _NEGATIVE or bool(end & _OF_RECEIVE)
        if arrived and wanted & Acknowledge.POSITIVE_ARRIVAL:
            expected.add(REACHED)
        if _wanted_end(wanted, end):
            expected.add(end)
        unheard = self._is_abandoned(asked) and set(told) < expected
        if set(told) != expected and not unheard:
            raise BrokenPromiseError(f"{message_id} was told {told}, expected were {expected}")

    def _check_journal(self, message_id: str, asked: Asked, end: MessageClass | None) -> None:
        journaled = self.journaled.get(message_id, [])
        if not asked.message.use_journal_queue or end != RECEIVED:
            if journaled:
                raise BrokenPromiseError(f"{message_id} is in {journaled}, it should not be")
            return
        doubtful = self._may_be_in_doubt(asked)
        if len(journaled) != 1 and not (doubtful and not journaled):
            raise BrokenPromiseError(f"{message_id} was received; journals: {journaled}")

    def _is_abandoned(self, asked: Asked) -> bool:
        """Whether it may have been in an outgoing queue that was deleted, or have left one."""
        return (asked.source, asked.place) in self.abandoned

    def _of(self, message_id: str) -> Asked:
        asked = self.asked.get(message_id)
        if asked is None:
            raise BrokenPromiseError(f"{message_id} was seen, and nobody sent it")
        return asked

    @staticmethod
    def _times_to_live(asked: Asked) -> list[float]:
        message = asked.message
        times = [message.time_to_be_received]
        if asked.remote:
            times.append(message.time_to_reach_queue)
        return [each for each in times if each is not None]


def _wanted_end(asked: Acknowledge, end: MessageClass) -> bool:
    """Whether the sender asked to be told of an end, by the bits of table 1.6."""
    if not end & _NEGATIVE:
        return bool(asked & Acknowledge.POSITIVE_RECEIVE)
    if end & _OF_RECEIVE:
        return bool(asked & Acknowledge.NEGATIVE_RECEIVE)
    return bool(asked & Acknowledge.NEGATIVE_ARRIVAL)
