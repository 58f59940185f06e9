"""Tests of your own application: a queue manager that a test starts, kills and starts again.

The other modules are what `dray torture` runs. docs/how-to/test-an-application.md has examples.
"""

from dray.testing.processes import ManagerProcess

__all__ = ["ManagerProcess"]
