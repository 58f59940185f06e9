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
