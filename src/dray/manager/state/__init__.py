"""The durable state: only facts change it, at a start the same way as in a turn.

`State` is all of it. Snapshots write it whole into a checkpoint, and `replay` rebuilds it.

These ask it: `change`, `context`, `incoming`, `own_messages`, `peers`, `requests`, `transactions`,
`turn` and `dray.offline`.
"""

from dray.manager.state.deadlines import Deadlines, soonest
from dray.manager.state.outcomes import BatchOutcome, Outcomes
from dray.manager.state.snapshots import read_state, replay, take_snapshots
from dray.manager.state.state import State
from dray.manager.state.unfinished import Upload
