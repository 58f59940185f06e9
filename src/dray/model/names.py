r"""Queue names: what users write, taken apart and checked (semantics 1.1).

    orders                              a queue of this manager
    orders;retry                        its sub-queue          orders;journal  its journal
    system$;deadxact                    a system queue
    dray://host:port/orders             a queue of another manager, drays:// through TLS
    DIRECT=TCP:host\private$\orders    the same in the original's format, at the default port or
                                        at that of host:port; the host "." is this manager
    .\private$\orders\Journal$         the journal of a queue here, by its path in the original
    .\XactDeadLetter$                  a system queue by its path; .\DeadLetter$, .\Journal$

Names compare without regard to case, as in the original.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from dray.errors import InvalidQueueName
from dray.model.arguments import shown, shown_address
from dray.model.limits import (
    NAME_CHARACTERS_REMEMBERED_MAX,
    NAMES_REMEMBERED,
    QUEUE_NAME_CHARACTERS_MAX,
    SUB_QUEUE_NAME_CHARACTERS_MAX,
)

DEFAULT_PORT = 7340
_FORBIDDEN = re.compile(r'[\\;+,"/\x00-\x1f\x7f\ud800-\udfff]')
_FORMAT_NAME = re.compile(
    r"(?:DIRECT=(?:TCP|OS):([^\\]+)|\.)\\(?:private\$\\)?(.+)\Z", re.IGNORECASE
)
_HOST = re.compile(r"[\w.:%-]+")
_HOST_CHARACTERS_MAX = 253
"""The longest host name that the domain name system knows (RFC 1035)."""
_HERE = (None, ".")
SYSTEM = "system$"
STATUS_QUEUE = "statusq"
"""The status queue of large messages, unless a receiver names another one."""
SYSTEM_JOURNAL = "system$;journal"
DEAD_LETTER_QUEUES = ("system$;deadletter", "system$;deadxact")
"""The dead-letter queues: of plain messages, and of transactional ones."""
UNNAMED_WRITE = "write$"
"""The query ids of writes from Spark that were given none begin with this."""
REQUEST_KEY = "http$"
"""The names of batches that are one message of a request with an `Idempotency-Key` begin so."""
_PATHS = {
    "journal$": SYSTEM_JOURNAL,
    "deadletter$": DEAD_LETTER_QUEUES[0],
    "xactdeadletter$": DEAD_LETTER_QUEUES[1],
}
_JOURNAL_OF_QUEUE = "\\journal$"
_SCHEME, _SECURE_SCHEME = "dray", "drays"


class QueueAddress(NamedTuple):
    """A name taken apart. `host` is empty for a queue of this manager."""

    queue: str
    sub_queue: str = ""
    host: str = ""
    port: int = DEFAULT_PORT
    secure: bool = False
    """Whether it is reached through TLS."""

    @property
    def remote(self) -> bool:
        """Whether the queue lives on another manager."""
        return bool(self.host)

    @property
    def local_name(self) -> str:
        """The name on its own manager, with the sub-queue."""
        return f"{self.queue};{self.sub_queue}" if self.sub_queue else self.queue

    def __str__(self) -> str:
        """The canonical text."""
        if not self.remote:
            return self.local_name
        scheme = _SECURE_SCHEME if self.secure else _SCHEME
        return f"{scheme}://{shown_host(self.host)}:{self.port}/{self.local_name}"


def shown_host(host: str) -> str:
    """A host as it stands in an address: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def parse_queue_address(text: str) -> QueueAddress:
    """Read any form of a queue's name; raises `InvalidQueueName`."""
    if not isinstance(text, str):
        raise InvalidQueueName(f"the name of a queue must be a text, not {type(text).__name__}")
    # The same few names come again and again; the memory for very long ones is not given.
    return _remembered(text) if len(text) <= NAME_CHARACTERS_REMEMBERED_MAX else _taken_apart(text)


def _taken_apart(text: str) -> QueueAddress:
    if text.lower().startswith(("dray://", "drays://")):
        return _remote(text)
    form = _FORMAT_NAME.match(text)
    if form:
        return _format_name(text, form[1], form[2])
    return QueueAddress(*_split(text))


_remembered = lru_cache(NAMES_REMEMBERED)(_taken_apart)


def check_new_queue_name(name: str) -> str:
    """Give the canonical name of a queue to be made; raises `InvalidQueueName`."""
    address = parse_queue_address(name)
    if address.remote or address.sub_queue:
        raise InvalidQueueName(f"cannot create {shown(name)}: give the plain name of a local queue")
    if address.queue.endswith("$"):
        raise InvalidQueueName(
            f"cannot create {shown(name)}: names ending in '$' belong to the system"
        )
    return address.queue


def parse_manager_address(text: str) -> tuple[str, int, bool]:
    """Read host and port of a manager, and whether through TLS.

    "host", "host:port", or either with "dray://" or "drays://" before it.
    """
    parts = text if "://" in text else f"dray://{text}"
    try:
        address = parse_queue_address(f"{parts.rstrip('/')}/queue")
    except InvalidQueueName as error:
        raise _no_manager_address(text) from error
    if not address.remote:
        raise _no_manager_address(text)
    return address.host, address.port, address.secure


def is_host(text: str) -> bool:
    """Whether a text may be a host's name or IP address: no look-up can find any other text."""
    if len(text) > _HOST_CHARACTERS_MAX or not _HOST.fullmatch(text):
        return False
    try:
        # The look-up encodes each name so, and refuses empty labels and labels above 63 bytes.
        text.encode("idna")
    except UnicodeError:
        return False
    return True


def queue_key(name: str) -> str:
    """The form under which names compare."""
    return name.casefold()


def _format_name(text: str, host: str | None, path: str) -> QueueAddress:
    """Read the original's form: a host, or none for this manager, and a path on it."""
    path = _PATHS.get(path.lower(), path)
    if path.lower().endswith(_JOURNAL_OF_QUEUE):
        path = f"{path[: -len(_JOURNAL_OF_QUEUE)]};journal"
    queue, sub_queue = _split(path)
    if host in _HERE:
        return QueueAddress(queue, sub_queue)
    # Many colons without brackets are an IPv6 address, and no port.
    bare = host.count(":") > 1 and not host.startswith("[")
    parts, port = _url(f"dray://[{host}]" if bare else f"dray://{host}", text)
    return QueueAddress(queue, sub_queue, _host(parts, text), port)


def _remote(text: str) -> QueueAddress:
    parts, port = _url(text, text)
    if parts.query or parts.fragment:
        raise _no_address(text)
    queue, sub_queue = _split(parts.path.removeprefix("/"))
    secure = parts.scheme.lower() == _SECURE_SCHEME
    return QueueAddress(queue, sub_queue, _host(parts, text), port, secure)


def _url(url: str, text: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        return parts, parts.port if parts.port is not None else DEFAULT_PORT
    except ValueError as error:
        raise _no_address(text) from error


def _host(parts: SplitResult, text: str) -> str:
    if not parts.hostname or parts.username or not is_host(parts.hostname):
        raise _no_address(text)
    return parts.hostname.lower()


def _no_address(text: str) -> InvalidQueueName:
    return InvalidQueueName(
        f"{shown_address(text)} is not a queue address: write dray://host:port/queue"
    )


def _no_manager_address(text: str) -> InvalidQueueName:
    return InvalidQueueName(
        f"{shown_address(text)} is not the address of a queue manager: write HOST:PORT or"
        " dray://HOST:PORT"
    )


def _split(text: str) -> tuple[str, str]:
    queue, _, sub_queue = text.partition(";")
    _check(queue, text, QUEUE_NAME_CHARACTERS_MAX)
    if ";" in text:
        _check(sub_queue, text, SUB_QUEUE_NAME_CHARACTERS_MAX)
    return queue, sub_queue


def _check(name: str, whole: str, longest: int) -> None:
    if not 1 <= len(name) <= longest:
        raise InvalidQueueName(
            f"{shown_address(whole)} is not a queue name: use 1 to {longest} characters"
        )
    if name != name.strip():
        raise InvalidQueueName(
            f"{shown_address(whole)} is not a queue name: it may not begin or end with a blank"
        )
    found = _FORBIDDEN.search(name)
    if found:
        raise InvalidQueueName(
            f"{shown_address(whole)} is not a queue name: it may not contain {found[0]!r}"
        )
