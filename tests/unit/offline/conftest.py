"""The driver of the manager's tests: a manager that works, and is then stopped."""

from tests.unit.manager.conftest import driver, mortal

__all__ = ["driver", "mortal"]
