"""One queue: its entries in order, who uses it, and how many bytes count against its quota.

The state changes queues as facts say. The rooms above read them, and hold or release entries. This
room also knows the queues that every manager has, the routes by which messages come, and how many
bytes of the log a change of a queue takes.

These ask it: `change`, `disk`, `follow_up`, `incoming`, `peers`, `requests`, `rights`, `state`,
`transactions`, `turn` and `dray.offline`.
"""

from dray.manager.queue.accounts import Account, account_of
from dray.manager.queue.arrival_routes import ArrivalRoute, ArrivalRoutes
from dray.manager.queue.costs import (
    KEPT_BYTES,
    MOVED_BYTES,
    POSITION_BYTES,
    REFUSED_BYTES,
    REJECTED_BYTES,
    TOLD_BYTES,
    cost_of_accepting,
    cost_of_leaving,
    cost_of_receiving,
    cost_of_sending,
    cost_of_staged,
    weight_of_leaving,
)
from dray.manager.queue.lookups import Lookup, Lookups, Sought
from dray.manager.queue.part_records import (
    Records,
    find_parts,
    hold_parts,
    part_seen,
    seen_in_record,
    watch_arrivals,
)
from dray.manager.queue.queues import (
    IndexBacklog,
    QueueTable,
    Route,
    StoredQueue,
    is_sent_ahead,
    taken_from_ahead,
)
from dray.manager.queue.system import (
    ADMIN_QUEUE,
    COMPUTER_JOURNAL,
    DEAD_LETTERS,
    DEAD_TRANSACTIONAL,
    FIRST_USER_QUEUE,
    IN_JOURNAL_QUOTA,
    INTERNAL,
    NOTIFY_QUEUE,
    ORDER_QUEUE,
    created_at_birth,
)
