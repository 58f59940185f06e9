"""What the tests of whole programs share: one process that has loaded the command line."""

from __future__ import annotations

from tests.integration.commands import warm_command

__all__ = ["warm_command"]
