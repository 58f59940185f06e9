"""The conversation between managers: links, streams, confirmations, repairs, identity.

`Links` has the links to other managers and the streams on them, `Strangers` the managers that
answer at known addresses, `Sources` the word to sources, and `Holes` the repairs of large messages.
The rules of delivery are in `dray.delivery`; this room carries them out.

These ask it: `dispatch`, `incoming`, `requests` and `dray.testing`.
"""

from dray.manager.peers.confirmations import (
    Sources,
)
from dray.manager.peers.links import Links
from dray.manager.peers.peers import (
    Strangers,
    greet_manager,
    handle_resolve_outgoing,
    incarnation_of_last_sent,
    judge_stated,
    note_source,
    refuse_overtaken_stream,
)
from dray.manager.peers.possession import welcome_with_proof, with_proof
from dray.manager.peers.repairs import (
    Holes,
)
