"""The kinds of message files and their names (S3-12).

    r0000001.mq   express       in memory, here only when memory runs short; emptied at the start
    p0000001.mq   recoverable   payload that survives everything
    j0000001.mq   journal       copies of what was received, delivered or could not be delivered
    l0000001.mq   map           which blocks of the p and j files are live (`maps`)

Everywhere else a heap file is one 32-bit number: two bits of kind, then the number in its name. So
a place in the heap takes no more room than before there were kinds, and recoverable files, whose
kind is 0, are the numbers in their names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

KIND_AT: Final = 30
NUMBER_MAX: Final = (1 << KIND_AT) - 1


class Kind(IntEnum):
    """The content of a heap file. The values are on the disk and never change."""

    RECOVERABLE = 0
    JOURNAL = 1
    EXPRESS = 2


_PREFIXES: Final = {Kind.RECOVERABLE: "p", Kind.JOURNAL: "j", Kind.EXPRESS: "r"}
_KINDS: Final = {prefix: kind for kind, prefix in _PREFIXES.items()}
_BY_VALUE: Final = {kind.value: kind for kind in Kind}
_NAME: Final = re.compile(r"([pjr])(\d{7,10})\.mq")
_NAME_WITH_MAPS: Final = re.compile(r"[pjrl]\d{7,10}\.mq")


def heap_file_number(kind: Kind, number: int) -> int:
    """The number by which extents know the heap file called `number` in its name."""
    assert 0 < number <= NUMBER_MAX, "heap files are numbered from 1, in 30 bits"
    return kind << KIND_AT | number


def kind_of(file: int) -> Kind:
    """The kind of heap file `file`."""
    return _BY_VALUE[file >> KIND_AT]


def file_name(file: int) -> str:
    """The name of heap file `file`."""
    return f"{_PREFIXES[kind_of(file)]}{file & NUMBER_MAX:07d}.mq"


def is_message_file(name: str) -> bool:
    """Whether that is the name of a heap file, or of a map that says what is live in them."""
    return _NAME_WITH_MAPS.fullmatch(name) is not None


def numbers_of(names: Iterable[str]) -> list[int]:
    """The heap files among `names` that last: recoverable and journal ones, sorted."""
    return [number for number in _all_numbers(names) if kind_of(number) is not Kind.EXPRESS]


def express_files(names: Iterable[str]) -> list[int]:
    """The express files among `names`, sorted."""
    return [number for number in _all_numbers(names) if kind_of(number) is Kind.EXPRESS]


def _all_numbers(names: Iterable[str]) -> list[int]:
    found = (_NAME.fullmatch(name) for name in names)
    numbers = (heap_file_number(_KINDS[each[1]], int(each[2])) for each in found if each)
    return sorted(numbers)
