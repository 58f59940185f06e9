"""The frames that each caller may have decided: one table, and what its rows ask.

`check_frame` refuses a frame before it is decided. `Rights` has the rules that hold, the leases of
numbers and the acts of callers. This room also knows the callers that show a token.

These ask it: `dispatch`, `incoming`, `peers`, `requests`, `transactions` and `turn`.
"""

from dray.manager.rights.acts import begun_act, note_act, note_opened_stream, note_refusal
from dray.manager.rights.changes import change_access
from dray.manager.rights.queues import (
    allowed,
    manages_all,
    may_deliver,
    may_see,
    no_status_queue,
    owns,
    require_delivery,
)
from dray.manager.rights.rights import Rights, handle_describe_access
from dray.manager.rights.table import (
    RIGHTS_OF_CLIENTS,
    RIGHTS_OF_MANAGERS,
    check_frame,
    check_hello,
)
from dray.manager.rights.tokens import (
    act_for,
    end_expired_tokens,
    handle_create_token,
    handle_list_tokens,
    handle_revoke_token,
    take_token,
)
