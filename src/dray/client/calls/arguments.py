"""The values that the arguments of public calls take: one table, by the names of the parameters.

`value_checks` has the check of each kind of value, and `public_calls` applies the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, Final, NamedTuple

import msgspec

from dray.client.calls import value_checks as checks
from dray.errors import InvalidConfiguration, InvalidQueueName
from dray.large.digests import DIGESTS
from dray.model import limits
from dray.model.arguments import no_sense, shown
from dray.model.message import Message


class ExpectedValue(NamedTuple):
    """The expected value of an argument, in words, and a function that takes it."""

    what: str
    taken: Callable[[Any], object]
    error: Callable[[str], Exception] | None = None

    def take(self, name: str, value: object) -> object:
        """Give the value to use; raises `InvalidArgument`, or the error that belongs to it."""
        found = self.taken(value)
        if found is not checks.UNFIT:
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


def _choice(*choices: str) -> ExpectedValue:
    return ExpectedValue(" or ".join(map(repr, choices)), checks.one_of(choices))


_TEXT = ExpectedValue("a text", checks.text())
_NAME = ExpectedValue("a text, the name of a queue", checks.queue_name, InvalidQueueName)
_ADDRESS = ExpectedValue("a text, the name or address of a queue", checks.text())
_FLAG = ExpectedValue("True or False", checks.flag)
_PATH = ExpectedValue("a path: a text or a pathlib.Path", checks.path)
_TOKEN = ExpectedValue("a token, or the path of its file", checks.text_or_path)
_SOURCES = ExpectedValue("a directory, the address of a queue, or a list of these", checks.sources)
_COUNT = ExpectedValue("a whole number of 64 bits", checks.whole(*checks.BITS_64))
_POSITION = ExpectedValue("a position: a whole number of 64 bits", checks.whole(*checks.BITS_64))
_TIMEOUT = ExpectedValue("a number of seconds from 0 on", checks.seconds(math.inf, zero=True))
_SECONDS = ExpectedValue(
    "a number of seconds above 0", checks.seconds(limits.TIME_TO_LIVE_S_MAX, zero=False)
)
_DURATION = ExpectedValue(
    f"a number of seconds from 0 to {limits.TIME_TO_LIVE_S_MAX:.0f}",
    checks.seconds(limits.TIME_TO_LIVE_S_MAX, zero=True),
)
_SIZE = ExpectedValue("a size: bytes, or a text such as '8GiB'", checks.size, InvalidConfiguration)
_SIZE_ABOVE_ZERO = ExpectedValue(
    "a size above 0: bytes, or a text such as '8GiB'",
    checks.size_above_zero,
    InvalidConfiguration,
)
_SPARK = ExpectedValue("a session of Spark", checks.of_spark)
_FROM_ONE = ExpectedValue("a whole number from 1 on", checks.whole(1, limits.MESSAGE_NUMBER_MAX))
_FOLDER = ExpectedValue("a directory, or the address of a store", checks.path)
_PATTERNS = ExpectedValue("an iterable of patterns", checks.ids, TypeError)
_FILES_QUEUE = ExpectedValue(
    "a queue of dray, such as manager.queue('orders') gives, or a LargeMessageQueue",
    checks.of_class(("Queue", "LargeMessageQueue"), "dray.client.blocking."),
    TypeError,
)
_PROGRESS = ExpectedValue("a function", checks.function)
_OWN_CHECK = ExpectedValue("", checks.anything)
"""The call itself says what it takes, in sentences of ours."""

_MESSAGE_PROPERTIES: Final = {
    "label": ExpectedValue(
        f"a text of at most {limits.LABEL_CHARACTERS_MAX} characters",
        checks.text(limits.LABEL_CHARACTERS_MAX),
    ),
    "correlation_id": ExpectedValue(
        f"a text of at most {limits.CORRELATION_ID_CHARACTERS_MAX} characters",
        checks.text(limits.CORRELATION_ID_CHARACTERS_MAX),
    ),
    "app_specific": ExpectedValue(
        f"a whole number from {limits.APP_SPECIFIC_MIN} to {limits.APP_SPECIFIC_MAX}",
        checks.whole(limits.APP_SPECIFIC_MIN, limits.APP_SPECIFIC_MAX, flag=True),
    ),
    "extension": ExpectedValue("bytes", checks.raw_bytes),
    "priority": ExpectedValue(
        f"a whole number from 0 to {limits.PRIORITY_MAX}", checks.whole(0, limits.PRIORITY_MAX)
    ),
    "recoverable": _FLAG,
    "time_to_reach_queue": _DURATION,
    "time_to_be_received": _DURATION,
    "administration_queue": _ADDRESS,
    "acknowledge": ExpectedValue("a value of dray.Acknowledge", checks.acknowledge),
    "response_queue": _ADDRESS,
    "destination": _ADDRESS,
    "use_dead_letter_queue": _FLAG,
    "use_journal_queue": _FLAG,
    "traceparent": ExpectedValue(
        f"a text of at most {limits.TRACEPARENT_CHARACTERS_MAX} characters",
        checks.text(limits.TRACEPARENT_CHARACTERS_MAX),
    ),
}

_BY_NAME: Final = {
    # The properties of a Message, also for calls that look for one.
    **_MESSAGE_PROPERTIES,
    # Names and ids.
    "name": _NAME,
    "to": _NAME,
    "source": _NAME,
    "outgoing": _NAME,
    "status_queue": _NAME,
    "id": _TEXT,
    "ids": ExpectedValue(f"an iterable of at most {limits.IDS_MAX} ids", checks.ids, TypeError),
    "transaction_id": _TEXT,
    "sequence_id": _TEXT,
    "transfer_id": _TEXT,
    "consumer_id": _TEXT,
    "manager_id": _TEXT,
    "address": ExpectedValue("a text, the address of a queue manager", checks.text()),
    # Numbers.
    "lookup_id": _POSITION,
    "after": _POSITION,
    "upto": _POSITION,
    "before": _POSITION,
    "born": ExpectedValue(
        "the birth number of a queue: a whole number of 64 bits", checks.whole(*checks.BITS_64)
    ),
    "max_messages": _FROM_ONE,
    "max_bytes": _COUNT,
    "size": _COUNT,
    "offset": _COUNT,
    "length": _COUNT,
    "whence": _COUNT,
    "fragment_size": _COUNT,
    "window_size": _COUNT,
    "retries": ExpectedValue(
        "a whole number from 0 on", checks.whole(0, limits.MESSAGE_NUMBER_MAX)
    ),
    # Times and sizes.
    "timeout": _TIMEOUT,
    "retry_delay": _DURATION,
    "idle": _DURATION,
    "expires": _SECONDS,
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
    "reconnect": _FLAG,
    "sync": _FLAG,
    "consumers": _choice("one", "many"),
    "then": _choice("reject", "move", "drop"),
    "digest": _choice(*DIGESTS),
    "compression": _choice("zstd"),
    "listen": ExpectedValue("the address of a host", checks.host),
    "poison": ExpectedValue(
        "the name of a sub-queue, and not 'retry' or 'journal'", checks.poison_name
    ),
    # Objects.
    "transaction": ExpectedValue(
        "what manager.transaction() begins", checks.of_class("Transaction")
    ),
    "parameters": ExpectedValue(
        "dray.LargeMessageParameters", checks.of_class("LargeMessageParameters", "dray.")
    ),
    "message": ExpectedValue(
        "a message that was received, or its position", checks.message_or_position
    ),
    "only": ExpectedValue("a message of contents()", checks.of_class("QueuedMessage", "dray.")),
    "messages": ExpectedValue("an iterable of messages or bytes", checks.iterable, TypeError),
    "buffer": ExpectedValue(
        "memory that can be written, such as a bytearray", checks.writable_memory, TypeError
    ),
    "file": ExpectedValue(
        "dray.FileProperties with a relative path and no negative number", checks.file_properties
    ),
    "handler": ExpectedValue("a function", checks.function),
    "stop": ExpectedValue("an event, such as threading.Event()", checks.event),
    "workers": ExpectedValue(
        f"a whole number from 1 to {limits.WORKERS_MAX}", checks.whole(1, limits.WORKERS_MAX)
    ),
    "progress": _PROGRESS,
    # Bodies and formatters say what they are where they are taken apart.
    "body": _OWN_CHECK,
    "formatter": _OWN_CHECK,
    "url": ExpectedValue(
        "the address of a queue manager, a text", checks.text(), InvalidConfiguration
    ),
    # Folders.
    "directory": _FOLDER,
    "state": _PATH,
    "include": _PATTERNS,
    "exclude": _PATTERNS,
    "hidden": _FLAG,
    "follow_links": _FLAG,
    "changed": _choice("send", "skip"),
    "settle": _DURATION,
    "poll": _SECONDS,
    "ready_suffix": _TEXT,
    "batch": _FROM_ONE,
    "in_doubt": _choice("sent", "send"),
    "wait": _choice("accepted", "received"),
    "manifest": _FLAG,
    "tree": _FLAG,
    "preserve": _FLAG,
    "on_conflict": _choice("number", "replace", "skip", "fail"),
    "follow": _FLAG,
    "command": ExpectedValue("a text, or a list of words", checks.words, TypeError),
    "count": _FROM_ONE,
    "tell": _PROGRESS,
    # Spark.
    "until": ExpectedValue(
        "dray.spark.Until with a flag as follow, seconds from 0 on as idle_s, an event as stop",
        checks.until,
    ),
    "session": _SPARK,
    "spark": _SPARK,
    "as_": _TEXT,
    "bytes_per_batch": _SIZE_ABOVE_ZERO,
    "commit_every": _DURATION,
    "file_size": _SIZE_ABOVE_ZERO,
    "accept_new_queue": _FLAG,
    "fail_on_data_loss": _FLAG,
    "rows_per_batch": ExpectedValue(
        "a whole number from 1 on", checks.whole(1, limits.MESSAGE_NUMBER_MAX)
    ),
    "report": ExpectedValue("a function", checks.function),
    "write": ExpectedValue("a function", checks.function),
    "row": _OWN_CHECK,
    "master": _TEXT,
    "config": ExpectedValue("a mapping of texts", checks.mapping),
    "environment": ExpectedValue("a mapping of texts", checks.mapping),
    # Files.
    "out": _PATH,
    "path": _PATH,
    "ca": _PATH,
    "cert": _PATH,
    "key": _PATH,
    "token": _TOKEN,
    "caller": _TEXT,
    "token_file": _PATH,
    "credentials": _PATH,
}
_BY_PLACE: Final = {
    "open.name": _TEXT,
    "Manager.create_token.name": _TEXT,
    "Manager.revoke_token.name": _TEXT,
    "land.queue": _TEXT,
    "land.table": _TEXT,
    "audit.sources": _SOURCES,
    "files_of.queue": _FILES_QUEUE,
    "send.queue": _FILES_QUEUE,
    "send.after": _TEXT,
    "watch.queue": _FILES_QUEUE,
    "watch.after": _TEXT,
    "receive.queue": _FILES_QUEUE,
    "receive.target": _FOLDER,
    "verify.manifest": _PATH,
    "spark_session.name": _TEXT,
    "open.listen": _TEXT,
    "restore.archive": ExpectedValue(
        "a path, or a file open for reading bytes", checks.path_or_file("read")
    ),
    "Manager.backup.target": ExpectedValue(
        "a path, or a file open for writing bytes", checks.path_or_file("write")
    ),
    "Manager.set_quota.queue": _NAME,
    "Manager.doctor.queue": _NAME,
    "Manager.move.target": _NAME,
    "Manager.wait_for_delivery.until": _choice("accepted", "received"),
    "Queue.move.target": _NAME,
    "LargeMessageQueue.send.resume": _PATH,
}
"""The names that mean something else in a call."""


def expected_of(name: str, place: str, module: str) -> ExpectedValue | None:
    """The expectation for a parameter of the call `place` (`Queue.send`); None if unknown."""
    if name == "queue" and place in _MADE_OF_A_QUEUE:
        # Each face has queues of its own.
        return _MADE_OF_A_QUEUE[place]["dray.client.awaited." in module]
    return _BY_PLACE.get(f"{place}.{name}") or _BY_NAME.get(name)


def checked_message(message: Message) -> Message:
    """Give a message that can be sent; raises `InvalidArgument` for a property that cannot."""
    changed = {}
    for name in compress(PROPERTIES, map(is_not, _properties_of(message), _UNSET)):
        value = getattr(message, name)
        found = _MESSAGE_PROPERTIES[name].take(name, value)
        if found is not value:
            changed[name] = found
    return msgspec.structs.replace(message, **changed) if changed else message


_FACES: Final = (("dray", "dray.client.blocking."), ("dray.aio", "dray.client.awaited."))
_MADE_OF_A_QUEUE: Final = {
    "LargeMessageQueue.__init__": [
        ExpectedValue(
            f"a queue of {face}, such as manager.queue('orders') gives",
            checks.of_class("Queue", module),
            TypeError,
        )
        for face, module in _FACES
    ],
    "Receiver.__init__": [
        ExpectedValue(
            f"a queue of {face}, such as manager.queue('orders') gives, or a LargeMessageQueue",
            checks.of_class(("Queue", "LargeMessageQueue"), module),
            TypeError,
        )
        for face, module in _FACES
    ],
}
PROPERTIES, _UNSET = zip(
    *(
        (field.name, field.default)
        for field in msgspec.structs.fields(Message)
        if field.name in _MESSAGE_PROPERTIES
    ),
    strict=True,
)
_properties_of: Final = attrgetter(*PROPERTIES)
"""The properties of a message that a program may set, by one call."""
