"""Which values the arguments of public calls take: one table, by the names of the parameters.

A check looks at the type of a value and never asks the value itself, whose methods may raise. It
gives what the call gets: plain texts and numbers, whatever subclass was given. `public_calls`
applies the table.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

import msgspec

from dray.errors import InvalidConfiguration, InvalidQueueName
from dray.large.digests import DIGESTS
from dray.model.arguments import no_sense, shown
from dray.model.classes import Acknowledge
from dray.model.files import MODE_MAX, FileProperties, is_plain_path
from dray.model.limits import (
    ACKNOWLEDGE_MAX,
    APP_SPECIFIC_MAX,
    APP_SPECIFIC_MIN,
    ARGUMENT_CHARACTERS_MAX,
    CORRELATION_ID_CHARACTERS_MAX,
    HOST_CHARACTERS_MAX,
    LABEL_CHARACTERS_MAX,
    MESSAGE_NUMBER_MAX,
    PATH_BYTES_MAX,
    PRIORITY_MAX,
    TIME_TO_LIVE_S_MAX,
)
from dray.model.message import Message
from dray.model.sizes import size_in_bytes

_BITS_64: Final = (-(1 << 63), (1 << 64) - 1)
"""Bounds of a number on the wire; no position and no count is near either end."""
_UNFIT: Final = object()
"""Given by a check for what it does not take."""


class ExpectedValue(NamedTuple):
    """The expected value of an argument, in words, and a function that takes it."""

    what: str
    taken: Callable[[Any], object]
    error: Callable[[str], Exception] | None = None

    def take(self, name: str, value: object) -> object:
        """Give the value to use; raises `InvalidArgument`, or the error that belongs to it."""
        found = self.taken(value)
        if found is not _UNFIT:
            return found
        if self.error is None:
            raise no_sense(name, self.what, value)
        raise self.error(f"{name} is {self.what}, not {shown(value)}")

    def or_also(self, value: object) -> ExpectedValue:
        """The same, or that one value."""
        also = "..." if value is ... else repr(value)
        taken = self.taken
        return ExpectedValue(
            f"{self.what}, or {also}",
            lambda given: given if given is value else taken(given),
            self.error,
        )


def _is(value: object, *kinds: type) -> bool:
    """Whether a value is of a kind, whatever it says of itself."""
    return issubclass(type(value), kinds)


def _text(longest: int = ARGUMENT_CHARACTERS_MAX) -> Callable[[object], object]:
    def taken(value: object) -> object:
        if not _is(value, str):
            return _UNFIT
        text = str.__str__(cast("str", value))
        return text if len(text) <= longest and _is_unicode(text) else _UNFIT

    return taken


def _is_unicode(text: str) -> bool:
    """Whether there are no half characters in it."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _host(value: object) -> object:
    text = _text(HOST_CHARACTERS_MAX)(value)
    fits = text is not _UNFIT and cast("str", text).isprintable() and " " not in cast("str", text)
    return text if fits and text else _UNFIT


def _name(value: object) -> object:
    """The form of a queue's name is checked where it is read, and so is its length."""
    return str.__str__(cast("str", value)) if _is(value, str) else _UNFIT


def _whole(least: int, most: int, *, flag: bool = False) -> Callable[[object], object]:
    """A number, and a bool only where `flag` says so: elsewhere it is a slip."""

    def taken(value: object) -> object:
        if not _is(value, int) or (_is(value, bool) and not flag):
            return _UNFIT
        number = int.__int__(cast("int", value))
        return number if least <= number <= most else _UNFIT

    return taken


def _seconds(most: float, *, zero: bool) -> Callable[[object], object]:
    def taken(value: object) -> object:
        if not _is(value, int, float) or _is(value, bool):
            return _UNFIT
        number = float.__float__(value) if _is(value, float) else int.__int__(value)  # type: ignore[arg-type]
        return number if (number >= 0 if zero else number > 0) and number <= most else _UNFIT

    return taken


def _choice(*choices: str) -> ExpectedValue:
    def taken(value: object) -> object:
        return value if type(value) is str and value in choices else _UNFIT

    return ExpectedValue(" or ".join(map(repr, choices)), taken)


def _flag(value: object) -> object:
    return value if value is True or value is False else _UNFIT


def _bytes(value: object) -> object:
    try:
        return bytes(memoryview(value)) if _is(value, bytes, bytearray, memoryview) else _UNFIT  # type: ignore[arg-type]
    except ValueError:
        # A view that was released.
        return _UNFIT


def _acknowledge(value: object) -> object:
    number = _whole(0, ACKNOWLEDGE_MAX)(value)
    return _UNFIT if number is _UNFIT else Acknowledge(cast("int", number))


def _size(value: object) -> object:
    if _is(value, int) and not _is(value, bool):
        value = int.__int__(cast("int", value))
    elif _is(value, str):
        value = str.__str__(cast("str", value))
    else:
        return _UNFIT
    try:
        return size_in_bytes(value)
    except InvalidConfiguration:
        return _UNFIT


def _path(value: object) -> object:
    """Give what the system can open: no bytes, no zero in it, nothing that fails to say itself."""
    if not _is(value, str, os.PathLike):
        return _UNFIT
    try:
        path = os.fspath(cast("os.PathLike[str]", value))
        encoded = os.fsencode(str.__str__(path))
        fits = b"\0" not in encoded and 0 < len(encoded) <= PATH_BYTES_MAX
    except Exception:  # noqa: BLE001 - whatever the caller's own `__fspath__` raises
        return _UNFIT
    return (Path(path) if _is(value, Path) else str.__str__(path)) if fits else _UNFIT


def _path_or_file(method: str) -> Callable[[object], object]:
    def taken(value: object) -> object:
        return value if callable(getattr(type(value), method, None)) else _path(value)

    return taken


def _callable(value: object) -> object:
    return value if callable(value) else _UNFIT


def _iterable(value: object) -> object:
    """Something to iterate over, and not the characters or bytes of one thing."""
    if _is(value, str, bytes, bytearray, memoryview):
        return _UNFIT
    try:
        return iter(cast("Iterable[object]", value))
    except Exception:  # noqa: BLE001 - whatever the caller's own `__iter__` raises
        return _UNFIT


def _mapping(value: object) -> object:
    return value if _is(value, Mapping) else _UNFIT


def _of_spark(value: object) -> object:
    return value if type(value).__module__.startswith("pyspark.") else _UNFIT


def _room(value: object) -> object:
    """Memory that can be filled."""
    try:
        view = memoryview(cast("bytearray", value))
    except (TypeError, ValueError, BufferError):
        return _UNFIT
    return value if not view.readonly and view.c_contiguous else _UNFIT


def made_by_dray(name: str, module: str) -> Callable[[type], bool]:
    """Whether a type is the class of that name in a module of Dray's, or made from it."""

    @functools.cache
    def fits(kind: type) -> bool:
        return any(
            each.__name__ == name and each.__module__.startswith(module) for each in kind.__mro__
        )

    return fits


def _ours(name: str, module: str = "dray.client.") -> Callable[[object], object]:
    fits = made_by_dray(name, module)
    return lambda value: value if fits(type(value)) else _UNFIT


def _file(value: object) -> object:
    if type(value) is not FileProperties:
        return _UNFIT
    file = value
    fits = (
        type(file.path) is str
        and is_plain_path(file.path)
        and _whole(0, MESSAGE_NUMBER_MAX)(file.size) is not _UNFIT
        and _whole(-MESSAGE_NUMBER_MAX, MESSAGE_NUMBER_MAX)(file.mtime_ns) is not _UNFIT
        and _whole(0, MODE_MAX)(file.mode) is not _UNFIT
    )
    return file if fits else _UNFIT


def _message(value: object) -> object:
    if _is(value, Message):
        position = cast("Message", value).lookup_id
        return value if position is None or _POSITION.taken(position) is not _UNFIT else _UNFIT
    return _POSITION.taken(value)


def _sources(value: object) -> object:
    several = value if isinstance(value, (list, tuple)) else [value]
    flat = [part for each in several for part in (each if isinstance(each, tuple) else (each,))]
    fits = bool(flat) and all(_path(each) is not _UNFIT for each in flat)
    return value if fits else _UNFIT


def _anything(value: object) -> object:
    return value


_TEXT = ExpectedValue("a text", _text())
_NAME = ExpectedValue("a text, the name of a queue", _name, InvalidQueueName)
_ADDRESS = ExpectedValue("a text, the name or address of a queue", _text())
_FLAG = ExpectedValue("True or False", _flag)
_PATH = ExpectedValue("a path: a text or a pathlib.Path", _path)
_SOURCES = ExpectedValue("a directory, the address of a queue, or a list of these", _sources)
_COUNT = ExpectedValue("a whole number of 64 bits", _whole(*_BITS_64))
_POSITION = ExpectedValue("a position: a whole number of 64 bits", _whole(*_BITS_64))
_TIMEOUT = ExpectedValue("a number of seconds from 0 on", _seconds(math.inf, zero=True))
_SECONDS = ExpectedValue("a number of seconds above 0", _seconds(TIME_TO_LIVE_S_MAX, zero=False))
_DURATION = ExpectedValue(
    f"a number of seconds from 0 to {TIME_TO_LIVE_S_MAX:.0f}",
    _seconds(TIME_TO_LIVE_S_MAX, zero=True),
)
_SIZE = ExpectedValue("a size: bytes, or a text such as '8GiB'", _size, InvalidConfiguration)
_PROGRESS = ExpectedValue("a function", _callable)
_OWN_CHECK = ExpectedValue("", _anything)
"""The call itself says what it takes, in sentences of ours."""

_MESSAGE_PROPERTIES: Final = {
    "label": ExpectedValue(
        f"a text of at most {LABEL_CHARACTERS_MAX} characters", _text(LABEL_CHARACTERS_MAX)
    ),
    "correlation_id": ExpectedValue(
        f"a text of at most {CORRELATION_ID_CHARACTERS_MAX} characters",
        _text(CORRELATION_ID_CHARACTERS_MAX),
    ),
    "app_specific": ExpectedValue(
        f"a whole number from {APP_SPECIFIC_MIN} to {APP_SPECIFIC_MAX}",
        _whole(APP_SPECIFIC_MIN, APP_SPECIFIC_MAX, flag=True),
    ),
    "extension": ExpectedValue("bytes", _bytes),
    "priority": ExpectedValue(f"a whole number from 0 to {PRIORITY_MAX}", _whole(0, PRIORITY_MAX)),
    "recoverable": _FLAG,
    "time_to_reach_queue": _DURATION,
    "time_to_be_received": _DURATION,
    "administration_queue": _ADDRESS,
    "acknowledge": ExpectedValue("a value of dray.Acknowledge", _acknowledge),
    "response_queue": _ADDRESS,
    "destination": _ADDRESS,
    "use_dead_letter_queue": _FLAG,
    "use_journal_queue": _FLAG,
}

_BY_NAME: Final = {
    # What a Message may carry, and any call that looks for one.
    **_MESSAGE_PROPERTIES,
    # Names and ids.
    "name": _NAME,
    "to": _NAME,
    "source": _NAME,
    "outgoing": _NAME,
    "status_queue": _NAME,
    "id": _TEXT,
    "transaction_id": _TEXT,
    "sequence_id": _TEXT,
    "transfer_id": _TEXT,
    "consumer_id": _TEXT,
    "manager_id": _TEXT,
    "address": ExpectedValue("a text, the address of a queue manager", _text()),
    # Numbers.
    "lookup_id": _POSITION,
    "after": _POSITION,
    "upto": _POSITION,
    "born": ExpectedValue(
        "the birth number of a queue: a whole number of 64 bits", _whole(*_BITS_64)
    ),
    "max_messages": ExpectedValue("a whole number from 1 on", _whole(1, MESSAGE_NUMBER_MAX)),
    "max_bytes": _COUNT,
    "size": _COUNT,
    "offset": _COUNT,
    "length": _COUNT,
    "whence": _COUNT,
    "fragment_size": _COUNT,
    "window_size": _COUNT,
    "retries": ExpectedValue("a whole number from 0 on", _whole(0, MESSAGE_NUMBER_MAX)),
    # Times and sizes.
    "timeout": _TIMEOUT,
    "retry_delay": _DURATION,
    "seconds": _DURATION,
    "request_timeout": _SECONDS,
    "response_timeout": _SECONDS,
    "quota": _SIZE,
    "journal_quota": _SIZE,
    # Choices.
    "transactional": _FLAG,
    "journal": _FLAG,
    "exist_ok": _FLAG,
    "raw": _FLAG,
    "repair": _FLAG,
    "direct": _FLAG,
    "resume": _FLAG,
    "sync": _FLAG,
    "consumers": _choice("one", "many"),
    "then": _choice("reject", "move", "drop"),
    "digest": _choice(*DIGESTS),
    "compression": _choice("zstd"),
    "listen": ExpectedValue("the address of a host", _host),
    "poison": _TEXT,
    # Objects.
    "transaction": ExpectedValue("what manager.transaction() begins", _ours("Transaction")),
    "parameters": ExpectedValue(
        "dray.LargeMessageParameters", _ours("LargeMessageParameters", "dray.")
    ),
    "message": ExpectedValue("a message that was received, or its position", _message),
    "messages": ExpectedValue("an iterable of messages or bytes", _iterable, TypeError),
    "buffer": ExpectedValue("memory that can be written, such as a bytearray", _room, TypeError),
    "file": ExpectedValue("dray.FileProperties with a relative path and no negative number", _file),
    "handler": ExpectedValue("a function", _callable),
    "progress": _PROGRESS,
    # Bodies and formatters say what they are where they are taken apart.
    "body": _OWN_CHECK,
    "formatter": _OWN_CHECK,
    "url": ExpectedValue("the address of a queue manager, a text", _text(), InvalidConfiguration),
    # Spark.
    "until": ExpectedValue("dray.spark.Until", _ours("Until", "dray.spark.")),
    "session": ExpectedValue("a session of Spark", _of_spark),
    "as_": _TEXT,
    "bytes_per_batch": _SIZE,
    "accept_new_queue": _FLAG,
    "fail_on_data_loss": _FLAG,
    "rows_per_batch": ExpectedValue("a whole number from 1 on", _whole(1, MESSAGE_NUMBER_MAX)),
    "report": ExpectedValue("a function", _callable),
    "write": ExpectedValue("a function", _callable),
    "row": _OWN_CHECK,
    "master": _TEXT,
    "java": ExpectedValue("what dray.spark.find_java() gives", _ours("Java", "dray.spark.")),
    "config": ExpectedValue("a mapping of texts", _mapping),
    "environment": ExpectedValue("a mapping of texts", _mapping),
    # Files.
    "out": _PATH,
    "path": _PATH,
    "ca": _PATH,
    "cert": _PATH,
    "key": _PATH,
}
_BY_PLACE: Final = {
    "open.name": _TEXT,
    "land.queue": _TEXT,
    "land.table": _TEXT,
    "audit.sources": _SOURCES,
    "spark_session.name": _TEXT,
    "open.listen": _TEXT,
    "restore.archive": ExpectedValue(
        "a path, or a file open for reading bytes", _path_or_file("read")
    ),
    "Manager.backup.target": ExpectedValue(
        "a path, or a file open for writing bytes", _path_or_file("write")
    ),
    "Manager.set_quota.queue": _NAME,
    "Queue.move.target": _NAME,
    "LargeMessageQueue.send.resume": _PATH,
}
"""Where a name means something else."""


def expected_of(name: str, place: str, module: str) -> ExpectedValue | None:
    """The expectation for a parameter of the call `place` (`Queue.send`); None if unknown."""
    if name == "queue" and place in _MADE_OF_A_QUEUE:
        # Each face has queues of its own.
        return _OF_QUEUE["dray.client.awaited." in module]
    return _BY_PLACE.get(f"{place}.{name}") or _BY_NAME.get(name)


def checked_message(message: Message) -> Message:
    """Give a message that can be sent; raises `InvalidArgument` for a property that cannot."""
    changed = {}
    for name, default in _PROPERTY_DEFAULTS:
        value = getattr(message, name)
        if value is not default:
            changed[name] = _MESSAGE_PROPERTIES[name].take(name, value)
    return msgspec.structs.replace(message, **changed) if changed else message


_MADE_OF_A_QUEUE: Final = ("LargeMessageQueue.__init__", "Receiver.__init__")
_OF_QUEUE: Final = [
    ExpectedValue(
        f"a queue of {face}, such as manager.queue('orders') gives",
        _ours("Queue", module),
        TypeError,
    )
    for face, module in (
        ("dray", "dray.client.blocking."),
        ("dray.aio", "dray.client.awaited."),
    )
]
_PROPERTY_DEFAULTS: Final = [
    (field.name, field.default)
    for field in msgspec.structs.fields(Message)
    if field.name in _MESSAGE_PROPERTIES
]
