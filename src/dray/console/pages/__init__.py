"""Pages of the console: doctor, queues, messages, dead letters, deliveries, transfers, access.

doctor       the first page: everything that keeps messages from moving
queues       the list of queues, one queue with its messages, what is done to a queue
messages     one message: properties, preview, body, story
letters      dead letters: send again, move, drop
deliveries   outgoing queues and the queue managers that they lead to
transfers    files, uploads and large messages in flight
access       rules, connections, tokens, acts of callers
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from dray.console.console import Console, Tab
from dray.console.pages import access, deliveries, doctor, letters, messages, queues, transfers
from dray.console.pages.rates import QueueRates

routes: list[BaseRoute] = [
    *doctor.routes,
    *queues.routes,
    *messages.routes,
    *letters.routes,
    *deliveries.routes,
    *transfers.routes,
    *access.routes,
]
tabs: list[Tab] = [
    Tab("/", "Doctor"),
    Tab("/queues", "Queues"),
    Tab("/deadletters", "Dead letters"),
    Tab("/deliveries", "Between managers"),
    Tab("/transfers", "In flight"),
    Tab("/access", "Access"),
]


def begin(console: Console) -> None:
    """Look at the rates of all queues from now on."""
    console.kept(QueueRates).begin(console)
