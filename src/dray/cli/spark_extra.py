"""Commands of Spark where the extra is not installed."""

from __future__ import annotations

from dray.errors import InvalidConfiguration


def require_spark() -> None:
    """Raise `InvalidConfiguration`, with what to do, where the extra is not installed."""
    try:
        import dray.spark  # noqa: F401 - it needs the packages of the extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("dray"):
            raise
        raise InvalidConfiguration(
            f"{error.name} is not installed; `pip install 'dray[spark]'` brings Spark"
        ) from error
