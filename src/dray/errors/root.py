"""The class of every error, the form of its sentence, and the class that a code names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

__all__ = ["DrayError", "every_error", "from_code", "in_one_line"]


class DrayError(Exception):
    """The class of every error that Dray raises on purpose."""

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 1
    retryable = False

    def __init__(self, sentence: str, **fields: object) -> None:
        """Keep the `sentence` for people and the `fields` for programs, as attributes."""
        super().__init__(in_one_line(sentence))
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the sentence and the fields, so that Spark's workers can send the error."""
        return _rebuild, (type(self), str(self), self.fields)


def in_one_line(text: str) -> str:
    """Write characters that have no shape, such as a line break in a path, as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def _rebuild(cls: type[DrayError], sentence: str, fields: dict[str, object]) -> DrayError:
    return cls(sentence, **fields)


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
