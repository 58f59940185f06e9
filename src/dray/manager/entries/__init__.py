"""The packed entries of queues: 79 bytes for each message, read, made and counted.

An entry is a key, which gives its place in the queue, and a *tail*, which facts carry. `layout.py`
draws the bytes. A record that is placed but in no queue yet is `Staged`. This room knows no queue:
it is told bytes, and gives bytes or numbers.

These ask it: `change`, `disk`, `incoming`, `peers`, `queue`, `requests`, `state`, `transactions`
and `dray.offline`.
"""

from dray.manager.entries.entry import (
    Entry,
    copies_of,
    expires_us_of,
    is_express_entry,
    lookup_id_of,
    marks_of,
    number_of,
    part_of,
    place_in,
    tail_of,
    unpack,
    with_key,
)
from dray.manager.entries.layout import (
    ENTRY_BYTES,
    KEY_BYTES,
    ORDINAL_BITS,
    ORDINAL_MAX,
    TAIL_BYTES,
)
from dray.manager.entries.packed import (
    any_asks_in,
    any_came_back_in,
    claims_in,
    entries_in,
    entries_numbered,
    expiries_in,
    express_in,
    fields_in,
    lengths_in,
    part_count_in,
    places_in,
    plain_in,
    positions_in,
    routes_in,
    runs_in,
    transactions_in,
    with_aborts,
    with_keys,
)
from dray.manager.entries.staged import SentAhead, Staged, Wish, group_places
from dray.manager.entries.tails import (
    as_group,
    as_plain,
    at_place,
    extent_of,
    extents_of,
    is_express,
    moved_tail,
    pack_place,
    pack_tail,
    packed_tails,
    place_of,
    route_of,
    sent_anew,
    split_tails,
    unpack_places,
    with_class,
    with_expiry,
    with_route,
    without_dead_letter,
)
