"""The desk of the manager's tests: a manager that works, and is then stopped."""

from tests.unit.manager.conftest import desk, mortal

__all__ = ["desk", "mortal"]
