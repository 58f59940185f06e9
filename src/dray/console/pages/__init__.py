"""Pages of the console: doctor, queues, messages, dead letters, deliveries, access."""

from __future__ import annotations

from starlette.routing import BaseRoute

from dray.console.console import Tab

routes: list[BaseRoute] = []
tabs: list[Tab] = []
