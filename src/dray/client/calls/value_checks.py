"""Checks of single values: each gives the value that a call gets, or `UNFIT`.

A check looks at the type of a value and never asks the value itself, whose methods may raise. It
gives plain texts and numbers, whatever subclass was given. `arguments` says which check belongs to
which parameter.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, cast

from dray.errors import InvalidConfiguration, InvalidQueueName
from dray.model import limits
from dray.model.classes import Acknowledge
from dray.model.files import MODE_MAX, FileProperties, is_plain_path
from dray.model.message import Message
from dray.model.names import parse_queue_address
from dray.model.words import size_in_bytes

UNFIT: Final = object()
"""Given by a check for a value that it does not take."""
_TAKEN_SUB_QUEUES: Final = frozenset({"retry", "journal"})
"""A receiver tries again what is in the one, and only the queue manager fills the other."""
BITS_64: Final = (-(1 << 63), (1 << 64) - 1)
"""Bounds of a number on the wire; no position and no count is near either end."""


def _is(value: object, *kinds: type) -> bool:
    """Whether a value is of a kind, whatever it says of itself."""
    return issubclass(type(value), kinds)


def text(longest: int = limits.ARGUMENT_CHARACTERS_MAX) -> Callable[[object], object]:
    """A text of at most so many characters."""

    def taken(value: object) -> object:
        if not _is(value, str):
            return UNFIT
        plain = str.__str__(cast("str", value))
        return plain if len(plain) <= longest and _is_unicode(plain) else UNFIT

    return taken


def _is_unicode(text: str) -> bool:
    """Whether there are no half characters in it."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def host(value: object) -> object:
    """The name or address of a host."""
    given = text(limits.HOST_CHARACTERS_MAX)(value)
    fits = given is not UNFIT and cast("str", given).isprintable() and " " not in cast("str", given)
    return given if fits and given else UNFIT


def queue_name(value: object) -> object:
    """The form of a queue's name is checked where it is read, and so is its length."""
    return str.__str__(cast("str", value)) if _is(value, str) else UNFIT


def poison_name(value: object) -> object:
    """A sub-queue for poison messages. It is needed only at the first of them, and that is late."""
    given = cast("str", text()(value))
    if given is UNFIT or given.lower() in _TAKEN_SUB_QUEUES:
        return UNFIT
    try:
        return given if parse_queue_address(f"queue;{given}").sub_queue == given else UNFIT
    except InvalidQueueName:
        return UNFIT


def whole(least: int, most: int, *, flag: bool = False) -> Callable[[object], object]:
    """A number, and a bool only where `flag` says so: elsewhere it is a slip."""

    def taken(value: object) -> object:
        if type(value) is int:
            return value if least <= value <= most else UNFIT
        if not _is(value, int) or (_is(value, bool) and not flag):
            return UNFIT
        number = int.__int__(cast("int", value))
        return number if least <= number <= most else UNFIT

    return taken


_position = whole(*BITS_64)


def seconds(most: float, *, zero: bool) -> Callable[[object], object]:
    """A number of seconds."""

    def taken(value: object) -> object:
        if not _is(value, int, float) or _is(value, bool):
            return UNFIT
        number = float.__float__(value) if _is(value, float) else int.__int__(value)  # type: ignore[arg-type]
        return number if (number >= 0 if zero else number > 0) and number <= most else UNFIT

    return taken


def one_of(choices: tuple[str, ...]) -> Callable[[object], object]:
    """One of some texts."""

    def taken(value: object) -> object:
        return value if type(value) is str and value in choices else UNFIT

    return taken


def flag(value: object) -> object:
    """True or False."""
    return value if value is True or value is False else UNFIT


def raw_bytes(value: object) -> object:
    """Bytes, copied."""
    try:
        return bytes(memoryview(value)) if _is(value, bytes, bytearray, memoryview) else UNFIT  # type: ignore[arg-type]
    except ValueError:
        # A view that was released.
        return UNFIT


def acknowledge(value: object) -> object:
    """The acknowledgments that the sender asks for."""
    number = whole(0, limits.ACKNOWLEDGE_MAX)(value)
    return UNFIT if number is UNFIT else Acknowledge(cast("int", number))


def size(value: object) -> object:
    """A size in bytes, given as a number or a text."""
    if _is(value, int) and not _is(value, bool):
        value = int.__int__(cast("int", value))
    elif _is(value, str):
        value = str.__str__(cast("str", value))
    else:
        return UNFIT
    try:
        return size_in_bytes(value)
    except InvalidConfiguration:
        return UNFIT


def size_above_zero(value: object) -> object:
    """A size in bytes that something can have."""
    return size(value) or UNFIT


def path(value: object) -> object:
    """Give what the system can open: no bytes, no zero in it, nothing that fails to say itself."""
    if not _is(value, str, os.PathLike):
        return UNFIT
    try:
        plain = os.fspath(cast("os.PathLike[str]", value))
        encoded = os.fsencode(str.__str__(plain))
        fits = b"\0" not in encoded and 0 < len(encoded) <= limits.PATH_BYTES_MAX
    except Exception:  # noqa: BLE001 - whatever the caller's own `__fspath__` raises
        return UNFIT
    return (Path(plain) if _is(value, Path) else str.__str__(plain)) if fits else UNFIT


def text_or_path(value: object) -> object:
    """A text, also an empty one, or a path that is none."""
    return text()(value) if _is(value, str) else path(value)


def path_or_file(method: str) -> Callable[[object], object]:
    """A path, or a file that has the method."""

    def taken(value: object) -> object:
        return value if callable(getattr(type(value), method, None)) else path(value)

    return taken


def function(value: object) -> object:
    """Anything that can be called."""
    return value if callable(value) else UNFIT


def iterable(value: object) -> object:
    """Something to iterate over, and not the characters or bytes of one thing."""
    if _is(value, str, bytes, bytearray, memoryview):
        return UNFIT
    try:
        return iter(cast("Iterable[object]", value))
    except Exception:  # noqa: BLE001 - whatever the caller's own `__iter__` raises
        return UNFIT


def ids(value: object) -> object:
    """Ids in an iterable, as a list."""
    found = iterable(value)
    if found is UNFIT:
        return found
    taken: list[object] = []
    try:
        for each in cast("Iterable[object]", found):
            plain = text()(each)
            if plain is UNFIT or len(taken) == limits.IDS_MAX:
                return UNFIT
            taken.append(plain)
    except Exception:  # noqa: BLE001 - whatever the caller's own iterator raises
        return UNFIT
    return taken


def words(value: object) -> object:
    """A text, or the words of one."""
    return text()(value) if _is(value, str) else ids(value)


def mapping(value: object) -> object:
    """A mapping."""
    return value if _is(value, Mapping) else UNFIT


def of_spark(value: object) -> object:
    """An object of Spark's."""
    return value if type(value).__module__.startswith("pyspark.") else UNFIT


def writable_memory(value: object) -> object:
    """Memory that can be filled."""
    try:
        view = memoryview(cast("bytearray", value))
    except (TypeError, ValueError, BufferError):
        return UNFIT
    return value if not view.readonly and view.c_contiguous else UNFIT


def made_by_dray(name: str, module: str) -> Callable[[type], bool]:
    """Whether a type is the class of that name in a module of Dray's, or made from it."""

    @functools.cache
    def fits(kind: type) -> bool:
        return any(
            each.__name__ == name and each.__module__.startswith(module) for each in kind.__mro__
        )

    return fits


def of_class(
    names: str | tuple[str, ...], module: str = "dray.client."
) -> Callable[[object], object]:
    """An object of a class of Dray's, or of one of several."""
    fits = [made_by_dray(name, module) for name in ([names] if isinstance(names, str) else names)]
    return lambda value: value if any(each(type(value)) for each in fits) else UNFIT


def event(value: object) -> object:
    """An event that somebody sets."""
    return value if callable(getattr(type(value), "is_set", None)) else UNFIT


def until(value: object) -> object:
    """The end of a landing, each field of it as an argument of its own would be."""
    if of_class("Until", "dray.spark.")(value) is UNFIT:
        return UNFIT
    follow, idle_s, stop = cast("tuple[object, object, object]", value)
    fits = (
        flag(follow) is not UNFIT
        and (idle_s is None or seconds(limits.TIME_TO_LIVE_S_MAX, zero=True)(idle_s) is not UNFIT)
        and (stop is None or event(stop) is not UNFIT)
    )
    return value if fits else UNFIT


def file_properties(value: object) -> object:
    """The properties of a file, each in its bounds."""
    if type(value) is not FileProperties:
        return UNFIT
    file = value
    fits = (
        type(file.path) is str
        and is_plain_path(file.path)
        and whole(0, limits.MESSAGE_NUMBER_MAX)(file.size) is not UNFIT
        and whole(-limits.MESSAGE_NUMBER_MAX, limits.MESSAGE_NUMBER_MAX)(file.mtime_ns) is not UNFIT
        and whole(0, MODE_MAX)(file.mode) is not UNFIT
    )
    return file if fits else UNFIT


def message_or_position(value: object) -> object:
    """A message that was received, or a position."""
    if _is(value, Message):
        position = cast("Message", value).lookup_id
        return value if position is None or _position(position) is not UNFIT else UNFIT
    return _position(value)


def sources(value: object) -> object:
    """One source of an audit, or several."""
    several = value if isinstance(value, (list, tuple)) else [value]
    flat = [part for each in several for part in (each if isinstance(each, tuple) else (each,))]
    fits = bool(flat) and all(path(each) is not UNFIT for each in flat)
    return value if fits else UNFIT


def anything(value: object) -> object:
    """Any value."""
    return value
