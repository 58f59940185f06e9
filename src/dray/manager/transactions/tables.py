"""The states of a transaction, with the functions that each event runs.

`doomed` is an open transaction of which a send was refused: it places nothing more. `prepared`
stands in a fact. A test drives a manager through every line.
"""

from __future__ import annotations

from typing import Final

from dray.machine import Step
from dray.manager.disk import place_batch
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.manager.transactions.prepared import fact_of, take_up_prepared
from dray.manager.transactions.transactions import Transactions

TRANSACTION: Final = (
    Step("none", "send", (OpenTransaction.note_operations, place_batch), "open"),
    Step("none", "receive", (OpenTransaction.note_operations,), "open"),
    Step("none", "prepare", (fact_of,), "prepared"),
    Step("open", "send", (OpenTransaction.note_operations, place_batch), "open"),
    Step("open", "receive", (OpenTransaction.note_operations,), "open"),
    Step("open", "refused send", (), "doomed"),
    Step("doomed", "send", (), "doomed"),
    Step("open", "prepare", (fact_of,), "prepared"),
    Step("open", "commit", (Transactions.commit_open,), "none"),
    # The answer says what doomed it.
    Step("doomed", "prepare", (Transactions.abort,), "none"),
    Step("doomed", "commit", (Transactions.abort,), "none"),
    *(
        Step(state, event, (Transactions.abort,), "none")
        for state in ("open", "doomed")
        for event in ("abort", "session lost", "idle for too long")
    ),
    # Nothing durable knows of it.
    Step("open", "crash", (), "none"),
    Step("doomed", "crash", (), "none"),
    Step("prepared", "session lost", (), "prepared"),
    Step("prepared", "idle for too long", (), "prepared"),
    Step("prepared", "crash", (take_up_prepared,), "prepared"),
    Step("prepared", "settle by commit", (Transactions.commit_open,), "none"),
    Step("prepared", "settle by abort", (Transactions.abort,), "none"),
)
"""One transaction at its manager."""
