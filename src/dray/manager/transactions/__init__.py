"""Open transactions, and how they end: in one phase or in two, or aborted.

Requests gather here what a commit makes happen. The commit itself is one fact, made in
`dray.manager.change`. Staged batches of transactions, and room set aside for large messages, belong
to transactions too.

These ask it: `dispatch`, `peers`, `requests` and `turn`.
"""

from dray.manager.transactions.ahead import answered_ahead, forget_ahead, staged_ahead
from dray.manager.transactions.asked_outcomes import handle_outcome, outcome_of
from dray.manager.transactions.batches import (
    drop_old_batches,
    drop_staged_for,
    handle_commit_batch,
    handle_describe_batch,
    handle_drop_staged,
    handle_stage,
    staged_counts,
    take_up_batches,
)
from dray.manager.transactions.mixing import (
    check_plain_receive,
    check_plain_send,
    note_large_send,
    note_sent,
)
from dray.manager.transactions.open_transaction import OpenTransaction
from dray.manager.transactions.prepared import (
    handle_list_prepared,
    handle_prepare,
    handle_settle_prepared,
    staged_from,
    take_up_all_prepared,
)
from dray.manager.transactions.reservations import (
    NOTHING_RESERVED,
    check_room,
    place_of_reserved,
    promised,
)
from dray.manager.transactions.transactions import Transactions, commit, end_purges, take
