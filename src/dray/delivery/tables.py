"""The states of a stream at its source, of what arrives, of a confirmation, of ends: as data.

`tools/draw_tables.py` draws them into the documentation; tests drive the cores at random and hold
every step against them, both ways: no step that is not here, none here that does not happen.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Row(NamedTuple):
    """In `state`, on `event`, if `when`: `does`, and goes to `next`."""

    state: str
    event: str
    when: str
    does: str
    next: str


OUTGOING: Final = (
    Row("no link", "LinkReady", "it ever carried anything", "Open", "asked"),
    Row("no link", "LinkReady", "it carried nothing, or is paused", "", "silent"),
    Row("silent", "Grown", "something waits, or it was not refused", "Open", "asked"),
    Row("silent", "Grown", "paused", "", "silent"),
    Row("silent", "Resumed", "it ever carried anything", "Open", "asked"),
    Row("silent", "Resumed", "it carried nothing", "", "silent"),
    Row("silent", "Refused", "nothing waits, or nothing is kept", "counted", "silent"),
    Row("silent", "Refused", "something waits for later", "counted", "refused"),
    Row("no link", "LinkReady", "it has diverged", "", "diverged"),
    Row("asked", "PeerState", "it does not fit this store's past", "Diverged", "diverged"),
    Row(
        "asked",
        "PeerState",
        "this store is an older copy",
        "OlderCopy, Confirmed if it is news, Renewed",
        "open",
    ),
    Row("asked", "PeerState", "less than was acknowledged", "PeerForgot, fill the window", "open"),
    Row("asked", "PeerState", "otherwise", "Confirmed if it is news, fill the window", "open"),
    Row("asked", "Refused", "something waits for later", "Confirmed if news", "refused"),
    Row("asked", "Refused", "nothing waits, or nothing is kept", "Confirmed if news", "silent"),
    Row("asked", "PeerState", "said before the last question", "Confirmed if news", "asked"),
    Row("asked", "Refused", "said before the last question", "Confirmed if news", "asked"),
    Row("asked", "Tick", "the deadline has come", "Open", "asked"),
    Row("refused", "Tick", "the deadline has come", "Open", "asked"),
    Row("refused", "Resumed", "", "Open", "asked"),
    Row("silent", "Invited", "nothing was kept", "Open", "asked"),
    Row("refused", "Invited", "", "Open", "asked"),
    Row("refused", "Refused", "nothing waits any more", "counted", "silent"),
    Row("diverged", "LinkReady", "", "", "diverged"),
    Row("diverged", "Resolved", "a person has decided", "Renewed, once the peer answers", "silent"),
    Row("open", "Grown", "", "fill the window", "open"),
    Row(
        "open", "PeerState", "this sequence, in bounds, news", "Confirmed, fill the window", "open"
    ),
    Row("open", "PeerState", "anything else", "counted, ignored (R36)", "open"),
    Row("open", "Refused", "something waits for later", "Confirmed if news", "refused"),
    Row("open", "Refused", "nothing waits, or nothing is kept", "Confirmed if news", "silent"),
    Row("open", "Refused", "said before the last question", "as PeerState", "open"),
    Row("open", "Tick", "the deadline has come", "go back: fill the window anew", "open"),
    Row("open", "Invited", "", "go back: fill the window anew, first with one frame", "open"),
    *(
        Row(state, "Refused", "its position does not fit this store's past", "Diverged", "diverged")
        for state in ("silent", "asked", "refused", "open")
    ),
    *(
        Row(state, "LinkLost", "", "forget the flight", "no link")
        for state in ("silent", "asked", "refused", "diverged", "open")
    ),
    *(
        Row(state, "LinkReady", "", "forget the flight, Open", "asked")
        for state in ("silent", "asked", "refused", "open")
    ),
    *(
        Row(state, "LinkReady", "paused", "forget the flight", "silent")
        for state in ("asked", "refused", "open")
    ),
)
"""One outgoing stream on one connection. What is not here changes nothing."""


class Judged(NamedTuple):
    """How a message stands to what was accepted last, and whether it may enter."""

    sequence: str
    number: str
    previous: str
    accepted: bool


INCOMING: Final = (
    Judged("lower", "any", "any", accepted=False),
    Judged("same", "not above", "any", accepted=False),
    Judged("same", "above", "above", accepted=False),
    Judged("same", "above", "not above", accepted=True),
    Judged("higher", "any", "not 0", accepted=False),
    Judged("higher", "any", "0", accepted=True),
)
"""The predicate of semantics 2.3."""

CONFIRMATION: Final = (
    Row("none", "fact", "the message left, or may not enter", "kept, durably", "kept"),
    Row("kept", "OpenStream", "", "Confirmations, after the order ack", "told"),
    Row("kept", "turn ends", "the stream is open", "Confirmations", "told"),
    Row("told", "connection lost", "", "", "kept"),
    Row("told", "ConfirmationsTaken", "", "forgotten, durably", "taken"),
)
"""One confirmation at the destination."""

ENDING: Final = (
    Row("none", "DeleteQueue", "the queue ever carried anything", "a fact", "kept"),
    Row("none", "DeleteQueue", "it carried nothing", "", "none"),
    Row("kept", "turn ends", "the link is welcomed", "EndStream", "told"),
    Row("kept", "Welcome", "", "EndStream", "told"),
    Row("kept", "Tick", "it is too old", "a fact, the operator is told", "none"),
    Row("told", "connection lost", "", "", "kept"),
    Row("told", "StreamEnded", "", "a fact", "none"),
)
"""The end of a stream, as its source remembers it."""

GOING: Final = (
    Row("none", "a message", "the first of several of its transaction", "", "going"),
    Row("none", "a message", "one alone, or its last", "", "none"),
    Row("none", "EndedShort", "", "", "none"),
    Row("none", "Passed", "", "", "none"),
    Row("none", "EndStream", "", "", "none"),
    Row("going", "a message", "of the same, not its last", "", "going"),
    Row("going", "a message", "of the same, its last", "", "none"),
    Row("going", "a message", "of another one, not its last", "the first ended short", "going"),
    Row("going", "a message", "of another one, its last", "the first ended short", "none"),
    Row("going", "EndedShort", "above what was accepted", "it ended short", "none"),
    Row("going", "EndedShort", "not beyond what was accepted", "ignored", "going"),
    Row("going", "Passed", "it is not named", "it ended short", "none"),
    Row("going", "Passed", "it is named", "", "going"),
    Row("going", "EndStream", "", "it ended short", "none"),
)
"""What a destination takes to go on of an origin's transactions; every change is in a fact."""

ENDED_SHORT: Final = (
    Row("none", "message leaves", "undelivered, the last of its transaction", "a fact", "kept"),
    Row("none", "no more comes", "to be forwarded", "a fact, and a position passed over", "kept"),
    Row("kept", "Transmit", "of what stands behind it", "said in the same frame", "told"),
    Row("kept", "PassOver", "nothing stands behind it", "Passed", "told"),
    Row("kept", "Confirmed", "the peer had its message", "the fact of delivery", "none"),
    Row("told", "LinkLost", "", "", "kept"),
    Row("told", "Tick", "the deadline has come", "goes back, says it again", "told"),
    Row("told", "Confirmed", "up to it, or beyond", "the fact of delivery", "none"),
)
"""The end of a transaction short of its last message, as an outgoing queue keeps it."""
