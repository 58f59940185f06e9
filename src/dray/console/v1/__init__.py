"""HTTP for programs, at /v1."""

from __future__ import annotations

from starlette.routing import BaseRoute

routes: list[BaseRoute] = []
