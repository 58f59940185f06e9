"""The states of a transaction, as data; see `delivery/tables.py` for what is done with it."""

from __future__ import annotations

from typing import Final

from dray.delivery.tables import Row

TRANSACTION: Final = (
    Row("none", "send", "", "record placed in the heap, in no queue yet", "open"),
    Row("none", "receive", "something is there", "entry held: invisible, not gone", "open"),
    Row("none", "prepare", "nothing was done in it", "a fact", "prepared"),
    Row("open", "send", "", "record placed in the heap, in no queue yet", "open"),
    Row("open", "receive", "something is there", "entry held: invisible, not gone", "open"),
    Row("open", "refused send", "", "nothing more is placed", "doomed"),
    Row("doomed", "send", "", "nothing", "doomed"),
    Row("open", "prepare", "", "a fact names what it sent and received", "prepared"),
    Row("doomed", "prepare", "", "as abort; the answer is what doomed it", "none"),
    Row("open", "commit", "", "one fact: messages join, then messages leave", "none"),
    Row("doomed", "commit", "", "as abort; the answer is what doomed it", "none"),
    *(
        Row(state, event, "", "places given up, held entries back in place", "none")
        for state in ("open", "doomed")
        for event in ("abort", "session lost", "crash")
    ),
    Row("open", "idle for too long", "", "as abort; its next use is told why", "none"),
    Row("doomed", "idle for too long", "", "as abort; its next use is told why", "none"),
    Row("prepared", "session lost", "", "nothing: it is nobody's", "prepared"),
    Row("prepared", "idle for too long", "", "nothing", "prepared"),
    Row("prepared", "crash", "", "counted and held again at the next start", "prepared"),
    Row("prepared", "settle: commit", "", "the same fact as any commit", "none"),
    Row("prepared", "settle: abort", "", "places given up, held entries back in place", "none"),
)
"""One transaction at its manager."""
