"""The consequences of one fact: journals, dead letters, acknowledgments, freed room.

Code that lets messages join or leave a queue calls this room, so that no consequence is forgotten.
`CommitFact` gathers the fact, and `Departures` adds what follows when a message leaves. Work that
the manager does by itself is here too: expiry, setting damaged records aside, moving records
together, and the text files of queues.

These ask it: `incoming`, `peers`, `relay`, `requests`, `rights`, `transactions`, `turn` and
`dray.offline`.
"""

from dray.manager.change.commit_fact import CommitFact, bury, forget_parts
from dray.manager.change.compaction import Compactor
from dray.manager.change.departures import (
    Departures,
    arrival_wish,
    delivered_tails,
    entries_at,
    record_of,
)
from dray.manager.change.ends import (
    KEPT_THERE,
    held_by_route,
    is_counted_end,
    is_refusal,
    note_ends,
    refusal_code,
    refusal_sentence,
    warn_of_end,
)
from dray.manager.change.expiry import give_up_outgoing, remove_expired
from dray.manager.change.express import admit_express, heap_kind_in
from dray.manager.change.lqs import (
    LQS_EDITABLE,
    LQS_EVENTS,
    FileKeeper,
    FilesReport,
    changed_in_file,
    check_editable,
)
from dray.manager.change.names import (
    create_queue,
    is_own,
    journal_of,
    known_queue,
    next_hop,
    resolve_queue,
    routed_now,
    seen_from_here,
    tell_of_kept_routes,
)
from dray.manager.change.purging import (
    cut_into_portions,
    drop_large,
    first_portion,
    give_up_unreadable,
    leave,
    leave_all,
    purge,
    purge_message,
    purge_unreadable,
)
from dray.manager.change.quarantine import (
    QUARANTINE,
    QUARANTINE_NAME,
    damaged_messages,
    only_intact,
    refuse_damaged,
    set_aside,
)
from dray.manager.change.sub_queues import (
    begin_use_of_queue,
    check_outgoing_share,
    check_queue_share,
    drop_unused_queues,
    end_use_of_queues,
    note_queues_made,
    queues_used_by,
)
