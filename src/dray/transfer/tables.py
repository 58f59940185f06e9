"""The states of one consumer's copy at the producer, and of the consumer itself: as data.

`tools/draw_tables.py` draws them into docs/explanation/transfer.md; tests drive the cores at random
and hold every step against them, both ways.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Step(NamedTuple):
    """In `state`, on `event`, if `when`: `does`, and goes to `next`."""

    state: str
    event: str
    when: str
    does: str
    next: str


_LIVE = ("sending", "waiting", "suspended")

PRODUCER: Final = (
    Step("none", "Handshake", "discovery admits it", "Keep, Joined", "waiting"),
    Step("none", "Handshake", "the offer is suspended", "Keep, Suspended", "suspended"),
    Step("none", "Handshake", "discovery is closed", "Refused", "none"),
    Step("none", "Handshake", "the source has changed", "Cancelled with the error", "none"),
    Step("none", "Cancelled", "it is offered to one, and open", "Keep", "cancelled"),
    Step("none", "Cancelled", "the same, with an error", "Keep", "failed"),
    Step("waiting", "Wanted", "of this round", "go back to it", "sending"),
    Step("sending", "Wanted", "nothing is left to send", "go back to it", "waiting"),
    Step("sending", "Room", "that fills the window, or is the last", "SendPiece", "waiting"),
    Step("sending", "Acked", "nothing is left to send", "", "waiting"),
    Step("waiting", "Acked", "it frees the window", "", "sending"),
    Step("sending", "Handshake", "", "Joined: another round", "waiting"),
    Step("sending", "WayLost", "", "sends no more until it is asked", "waiting"),
    Step("sending", "Spoiled", "", "CheckSource", "waiting"),
    Step("sending", "SourceChecked", "", "Joined: all of it once more", "waiting"),
    Step("sending", "Suspend", "", "Keep, Suspended", "suspended"),
    Step("waiting", "Suspend", "", "Keep, Suspended", "suspended"),
    Step("sending", "Suspended", "", "Keep", "suspended"),
    Step("waiting", "Suspended", "", "Keep", "suspended"),
    Step("sending", "Tick", "silent for too long", "Keep", "suspended"),
    Step("waiting", "Tick", "silent for too long", "Keep", "suspended"),
    Step("suspended", "Resume", "", "Keep, Resumed", "waiting"),
    Step("suspended", "Handshake", "not asked for here, or it resumes", "Joined", "waiting"),
    Step("suspended", "Wanted", "not asked for here", "Joined", "waiting"),
    Step("suspended", "Acked", "nobody asked for it", "Joined", "waiting"),
    *(Step(state, "Verified", "", "Keep, Farewell", "done") for state in _LIVE),
    *(Step(state, "Cancel", "", "Keep, Cancelled", "cancelled") for state in _LIVE),
    *(Step(state, "Cancelled", "", "Keep", "cancelled") for state in _LIVE),
    *(Step(state, "Cancelled", "with an error", "Keep", "failed") for state in _LIVE),
    *(
        Step(state, "SourceBroke", "", "Keep, Cancelled with the error", "failed")
        for state in _LIVE
    ),
)
"""One consumer's copy at the producer. Steps that lead back to their state are left out."""

_OPEN = ("handshake", "receiving", "spoiled", "held there")

CONSUMER: Final = (
    Step("idle", "Begin", "", "Handshake", "handshake"),
    Step("idle", "Begin", "the file was there already", "Verified", "telling"),
    Step("handshake", "Joined", "something is missing", "Wanted", "receiving"),
    Step("handshake", "Joined", "nothing is missing", "Check", "checking"),
    Step("receiving", "PieceCame", "the last one", "Store, Acked, Check", "checking"),
    Step("receiving", "WayLost", "", "Handshake", "handshake"),
    Step("checking", "Checked", "good", "Verified", "telling"),
    Step("checking", "Checked", "not good", "Spoiled", "spoiled"),
    Step("checking", "Checked", "not good for the third time", "Cancelled (why)", "failed"),
    Step("spoiled", "Joined", "of another round", "StartOver, Wanted", "receiving"),
    Step("spoiled", "Joined", "the same, of an empty file", "StartOver, Check", "checking"),
    Step("telling", "Farewell", "", "Keep", "done"),
    Step("telling", "Tick", "no farewell in time", "Keep", "done"),
    *(Step(state, "Suspended", "", "Keep", "held there") for state in ("handshake", "receiving")),
    Step("spoiled", "Suspended", "", "Keep", "held there"),
    *(
        Step(state, "Suspend", "", "Keep, Suspended", "held here")
        for state in ("idle", "handshake", "receiving", "spoiled", "held there")
    ),
    Step("held here", "Resume", "", "Handshake", "handshake"),
    Step("held there", "Resume", "", "Handshake", "handshake"),
    Step("held here", "Resumed", "", "Handshake", "handshake"),
    Step("held there", "Resumed", "", "Handshake", "handshake"),
    Step("held there", "Joined", "", "Wanted", "receiving"),
    Step("held there", "Joined", "nothing is missing", "Check", "checking"),
    Step("held there", "PieceCame", "", "Handshake", "handshake"),
    Step("handshake", "Refused", "never joined before", "Keep", "failed"),
    *(Step(state, "Tick", "silence", "Keep", "timed out") for state in _OPEN),
    *(
        Step(state, "Cancel", "", "Cancelled, Keep", "cancelled")
        for state in ("idle", "checking", "telling", "held here", *_OPEN)
    ),
    *(
        Step(state, "Cancelled", "", "Keep", "cancelled")
        for state in ("idle", "checking", "telling", "held here", *_OPEN)
    ),
    *(
        Step(state, "Cancelled", "with an error", "Keep", "failed")
        for state in ("idle", "checking", "telling", "held here", *_OPEN)
    ),
)
"""The consumer. Steps that lead back to their state are left out."""
