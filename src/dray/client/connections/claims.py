"""Messages that a receive outside of transactions has claimed, until the program has them.

A receive claims its messages under a number of its own, and confirms them by a commit before it
hands them over. So an answer that is lost costs nothing:

    lost                  then
    answer to the claim   the manager puts the messages back, at the latest when it is asked next
    answer to the commit  the outcome is asked: committed, and they are handed over; aborted, and
                          they are in their queue again
    the way to ask        they stay here, and the next receive asks first

Kept by the connection's `Link`, for all handles of one `Manager` and all threads that share it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple, Protocol, TypeVar

from dray.client.calls.messages import ReceivedTransaction
from dray.errors import ConnectionLost, DrayError, InDoubt
from dray.model.classes import TransactionStatus
from dray.model.message import Message
from dray.wire.head import Head
from dray.wire.message_frames import Outcome, OutcomeIs
from dray.wire.selections import Select, SelectAt, SelectByCorrelation, SelectById

_Answer = TypeVar("_Answer", bound=Head)
_Waiting = TypeVar("_Waiting")


class Asks(Protocol):
    """Asks the queue manager; a `Link` does."""

    async def ask(self, head: Head, answer: type[_Answer]) -> _Answer:
        """Give the head of its answer."""


class Doubt(NamedTuple):
    """Messages taken from a queue, and their commit, whose answer was lost."""

    id: str
    queue: str
    taken: list[Any]
    """Messages, or one whole transaction."""

    @property
    def whole(self) -> bool:
        """Whether it is a whole transaction, and not a claim."""
        return isinstance(self.taken[0], ReceivedTransaction)

    def __str__(self) -> str:
        if self.whole:
            return f"a whole transaction of {self.queue!r}"
        first = f"message {self.taken[0].id} of {self.queue!r}"
        more = len(self.taken) - 1
        return f"{first} and {more} more" if more else first


class Claims:
    """All that calls outside of transactions have claimed and not handed over."""

    def __init__(self) -> None:
        self._unanswered: list[str] = []
        self._doubts: list[Doubt] = []
        self._ready: dict[tuple[str, bool], deque[Any]] = {}
        self._lock = threading.RLock()

    @property
    def waiting(self) -> bool:
        """Whether there is anything to settle or to hand over."""
        return bool(self._unanswered or self._doubts or self._ready)

    def give_up(self, claim_id: str) -> None:
        """Nothing came of a claim: whatever it holds is to go back."""
        self._unanswered.append(claim_id)

    def keep(self, doubt: Doubt) -> None:
        """Nobody waited for the answer to a commit; the next receive asks for its outcome."""
        self._doubts.append(doubt)

    async def find_out(self, link: Asks, doubt: Doubt, error: DrayError) -> None:
        """Find out what became of a commit whose answer was lost; raises unless it happened."""
        try:
            status = await _outcome(link, doubt)
        except DrayError as again:
            self._doubts.append(doubt)
            raise _undecided(doubt, error) from again
        except BaseException:
            # An interrupt, or a cancelled task: the next receive asks.
            self._doubts.append(doubt)
            raise
        if self._decided(doubt, status):
            return
        raise ConnectionLost(f"{error}; {doubt} was not taken, so receive again") from error

    async def settle(self, link: Asks) -> None:
        """Settle what is open; raises `ConnectionLost` while the manager cannot be asked."""
        while (claim_id := self._first(self._unanswered)) is not None:
            try:
                # Never committed, so whatever the answer is, it is given up now.
                await link.ask(Outcome(claim_id, claim=True), OutcomeIs)
            except BaseException:
                self._unanswered.insert(0, claim_id)
                raise
        while (doubt := self._first(self._doubts)) is not None:
            try:
                status = await _outcome(link, doubt)
            except BaseException:
                self._doubts.insert(0, doubt)
                raise
            if self._decided(doubt, status):
                with self._lock:
                    self._ready.setdefault((doubt.queue, doubt.whole), deque()).extend(doubt.taken)

    def taken(self, queue: str, select: Select, count: int) -> list[Message]:
        """Messages that were taken from a queue and not handed over; they are by this."""
        with self._lock:
            ready = self._ready.get((queue, False), ())
            found = [each for each in ready if _fits(select, each)][:count]
            for each in found:
                self._handed_over((queue, False), each)
            return found

    def taken_whole(self, queue: str) -> ReceivedTransaction | None:
        """A whole transaction that was taken from a queue and not handed over."""
        with self._lock:
            ready = self._ready.get((queue, True))
            if not ready:
                return None
            found: ReceivedTransaction = ready[0]
            self._handed_over((queue, True), found)
            return found

    def _first(self, waiting: list[_Waiting]) -> _Waiting | None:
        with self._lock:
            return waiting.pop(0) if waiting else None

    def _handed_over(self, place: tuple[str, bool], what: object) -> None:
        self._ready[place].remove(what)
        if not self._ready[place]:
            del self._ready[place]

    def _decided(self, doubt: Doubt, status: TransactionStatus) -> bool:
        """Whether the commit happened; raises while, or because, nobody can say."""
        match status:
            case TransactionStatus.COMMITTED:
                return True
            case TransactionStatus.ABORTED:
                return False
            case TransactionStatus.UNKNOWN:
                raise InDoubt(
                    f"the queue manager no longer knows whether {doubt} was taken by {doubt.id}:"
                    " look for it in the queue",
                    transaction_id=doubt.id,
                )
            case _:
                self._doubts.append(doubt)
                raise _undecided(doubt, ConnectionLost("its old connection is still there"))


def _fits(select: Select, message: Message) -> bool:
    """Whether a message is one that a selection asks for."""
    match select:
        case SelectAt(lookup_id):
            return message.lookup_id == lookup_id
        case SelectById(text):
            return message.id == text
        case SelectByCorrelation(correlation_id):
            return (message.correlation_id or "").casefold() == correlation_id.casefold()
    return True


async def _outcome(link: Asks, doubt: Doubt) -> TransactionStatus:
    answer = await link.ask(Outcome(doubt.id, claim=not doubt.whole), OutcomeIs)
    return TransactionStatus(answer.status)


def _undecided(doubt: Doubt, error: DrayError) -> ConnectionLost:
    return ConnectionLost(
        f"{error}; the client does not know yet whether {doubt} was taken: if so, the next"
        " receive through this manager returns it",
        transaction_id=doubt.id,
    )
