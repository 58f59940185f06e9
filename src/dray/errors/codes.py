"""From the code of an error, as it travels on the wire, to its class."""

from __future__ import annotations

from collections.abc import Mapping

from dray.errors.root import DrayError


def every_error() -> dict[str, type[DrayError]]:
    """Map each code to its class."""
    found: dict[str, type[DrayError]] = {}
    pending: list[type[DrayError]] = [DrayError]
    while pending:
        cls = pending.pop()
        found[cls.code] = cls
        pending.extend(cls.__subclasses__())
    return found


def from_code(code: str, sentence: str, fields: Mapping[str, object]) -> DrayError:
    """Rebuild an error that came over the wire; an unknown code gives a plain `DrayError`."""
    return every_error().get(code, DrayError)(sentence, **fields)
