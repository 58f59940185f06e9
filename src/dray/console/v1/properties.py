"""The properties of a message as headers: one table for requests, answers and the page.

Texts are UTF-8 in percent-encoding, as in an address. Bytes are base64. A time is in seconds since
1970, a duration in seconds.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from dray.console.http.refusal import HttpRefusal
from dray.console.v1.limits import HEADERS_CHARACTERS_MAX
from dray.model.classes import Acknowledge

PREFIX: Final = "dray-"
KIND: Final = "Dray-Kind"
TRANSACTION: Final = "Dray-Transaction"
LEFT_OUT: Final = "Dray-Left-Out"
_SHOWN: Final = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")
"""Characters of a text that stand for themselves in a header."""
_SAID_MAX: Final = 80
"""Characters of a wrong value that the refusal repeats."""
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})([eE][+-]?[0-9]{1,3})?")
"""As the table says. Python reads more: `1_000`, digits of other scripts, `infinity`."""


class Property(NamedTuple):
    """A property of a message, and the header that carries it."""

    header: str
    name: str
    form: str
    help: str
    read: Callable[[str], Any] | None = None
    """From the text of a header; None for a property that only queue managers set."""
    show: Callable[[Any], str] = str


def _text(said: str) -> str:
    # A server reads headers as Latin-1. A client may have sent UTF-8 as it is.
    return unquote_to_bytes(said.encode("latin-1")).decode("utf-8")


def shown(text: object) -> str:
    """A text as it stands in a header."""
    written = quote(str(text), safe=_SHOWN)
    # A blank at either end would not be part of the value.
    return written if written == written.strip() else written.replace(" ", "%20")


def whole_number(said: str) -> int:
    """Read a whole number in decimal digits; raises `ValueError`."""
    if not _WHOLE.fullmatch(said):
        raise ValueError(said)
    return int(said)


def seconds(said: str) -> float:
    """Read seconds in decimal digits, also parts of one; raises `ValueError`."""
    if not _NUMBER.fullmatch(said):
        raise ValueError(said)
    return float(said)


def _truth(said: str) -> bool:
    if said not in ("true", "false"):
        raise ValueError(said)
    return said == "true"


def _of_truth(value: object) -> str:
    return "true" if value else "false"


def _bytes(said: str) -> bytes:
    return base64.b64decode(said, validate=True)


def _of_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _acknowledge(said: str) -> Acknowledge:
    asked = Acknowledge.NONE
    for name in said.split(","):
        asked |= Acknowledge[name.strip().upper().replace("-", "_")]
    return asked


def _of_acknowledge(value: int) -> str:
    single = [each for each in Acknowledge if each in Acknowledge(value)]
    return ",".join(str(each.name).lower().replace("_", "-") for each in single)


def _of_class(value: Any) -> str:  # noqa: ANN401 - a class of the table, or a number
    return str(getattr(value, "name", value)).lower().replace("_", "-")


TEXT, WHOLE, SECONDS, TRUTH, BYTES = "text", "whole number", "seconds", "`true`, `false`", "base64"
SENT: Final = (
    Property("Dray-Label", "label", TEXT, "For people; at most 249 characters.", _text, shown),
    Property(
        "Dray-Correlation-Id", "correlation_id", TEXT,
        "Id of the message that this one answers, or any text.", _text, shown,
    ),
    Property(
        "Dray-App-Specific", "app_specific", WHOLE, "Any number of 32 bits.",
        whole_number,
    ),
    Property(
        "Dray-Extension", "extension", BYTES, "Any bytes; at most 64 KiB with the other texts.",
        _bytes, _of_bytes,
    ),
    Property(
        "Dray-Priority", "priority", WHOLE, "From 0 to 7, where the queue is not transactional.",
        whole_number,
    ),
    Property(
        "Dray-Recoverable", "recoverable", TRUTH, "False for an express message, kept in memory.",
        _truth, _of_truth,
    ),
    Property(
        "Dray-Time-To-Reach-Queue", "time_to_reach_queue", SECONDS,
        "Longest time until it is in its queue.", seconds,
    ),
    Property(
        "Dray-Time-To-Be-Received", "time_to_be_received", SECONDS,
        "Longest time until it is received.", seconds,
    ),
    Property(
        "Dray-Administration-Queue", "administration_queue", TEXT,
        "Queue for acknowledgments.", _text, shown,
    ),
    Property(
        "Dray-Acknowledge", "acknowledge", "names with commas",
        "Which acknowledgments: `positive-arrival`, `positive-receive`, `negative-arrival`,"
        " `negative-receive`.", _acknowledge, _of_acknowledge,
    ),
    Property(
        "Dray-Response-Queue", "response_queue", TEXT, "Queue for answers.", _text, shown
    ),
    Property(
        "Dray-Use-Dead-Letter-Queue", "use_dead_letter_queue", TRUTH,
        "Keep it as a dead letter if it expires or is refused.", _truth, _of_truth,
    ),
    Property(
        "Dray-Use-Journal-Queue", "use_journal_queue", TRUTH,
        "Keep a copy at the sending queue manager.", _truth, _of_truth,
    ),
)  # fmt: skip
"""Properties of a request to send, and of the answer to a receive."""
RECEIVED: Final = (
    Property("Dray-Id", "id", TEXT, "Message id; of a large message its sequence id.", None, shown),
    Property("Dray-Lookup-Id", "lookup_id", WHOLE, "Position in the queue."),
    Property(
        "Dray-Message-Class", "message_class", "name",
        "`normal`, or the class of an acknowledgment or a dead letter.",
        None, _of_class,
    ),
    Property(
        "Dray-Transaction-Id", "transaction_id", TEXT, "Transaction that sent it.",
        None, shown,
    ),
    Property(
        "Dray-First-In-Transaction", "first_in_transaction", TRUTH,
        "Whether it is the first of its transaction.", None, _of_truth,
    ),
    Property(
        "Dray-Last-In-Transaction", "last_in_transaction", TRUTH,
        "Whether it is the last of its transaction.", None, _of_truth,
    ),
    Property("Dray-Sent-Time", "sent_time", "seconds since 1970", "When it was sent."),
    Property("Dray-Arrived-Time", "arrived_time", "seconds since 1970", "When it arrived."),
    Property("Dray-Source", "source", TEXT, "Id of the sending queue manager.", None, shown),
    Property("Dray-Destination", "destination", TEXT, "Where it was sent.", None, shown),
    Property("Dray-Abort-Count", "abort_count", WHOLE, "Receives that were aborted."),
    Property("Dray-Move-Count", "move_count", WHOLE, "Moves to and from sub-queues."),
)  # fmt: skip
"""Properties that only an answer has."""
DIRECTIONS: Final = (
    (KIND, "`message`, `large`", "Which kind to send, whatever the size; in an answer, the kind."),
    (TRANSACTION, TEXT, "Transaction to send or receive in: the last part of its `Location`."),
    ("Dray-Digest", "`blake3`, `sha256`", "Digest of a large message to send."),
    ("Dray-Size", WHOLE, "In an answer: bytes of the body."),
    ("Dray-Receive-Id", TEXT, "In an answer: the transaction that `/v1/outcome` can tell of."),
    ("Dray-Body-Digest", "kind`=`hexadecimal", "In an answer: the digest of a large message."),
    (
        LEFT_OUT, "names with commas",
        "In an answer: properties that are too long for headers; `GET` the lease's `/properties`.",
    ),
)  # fmt: skip
"""Headers that say what to do, or tell of the request."""
_SENT: Final = {each.header.lower(): each for each in SENT}
_KNOWN: Final = {*_SENT, *(name.lower() for name, _, _ in DIRECTIONS)}


def properties_of(headers: Mapping[str, str], names: list[str]) -> dict[str, Any]:
    """The properties that the headers of a request ask for; raises `HttpRefusal`.

    `names` are all names of headers, in lower case, those that come twice among them.
    """
    found: dict[str, Any] = {}
    for name in names:
        if not name.startswith(PREFIX):
            continue
        if name not in _KNOWN or names.count(name) > 1:
            why = "is given twice" if name in _KNOWN else "is unknown"
            raise HttpRefusal(
                400, "bad-header", f"the header {name} {why}; see the table in the reference"
            )
        asked = _SENT.get(name)
        if asked is not None and asked.read is not None:
            found[asked.name] = _read(asked, headers[name])
    if found.get("acknowledge") and "administration_queue" not in found:
        raise HttpRefusal(
            400, "bad-header", "Dray-Acknowledge needs Dray-Administration-Queue, the queue that"
            " receives the acknowledgments",
        )  # fmt: skip
    return found


def headers_of(message: object) -> dict[str, str]:
    """The properties of a received message as headers; those without a value are left out."""
    found: dict[str, str] = {}
    for each in (*SENT, *RECEIVED):
        value = getattr(message, each.name, None)
        text = "" if value is None else each.show(value)
        if text:
            found[each.header] = text
    return found


def within_bounds(headers: dict[str, str]) -> dict[str, str]:
    """The same headers without the longest, if they are too long for a client, and their names."""
    kept, left_out = dict(headers), []
    while sum(len(name) + len(value) for name, value in kept.items()) > HEADERS_CHARACTERS_MAX:
        longest = max(kept, key=lambda name: len(kept[name]))
        left_out.append(longest)
        del kept[longest]
    return {**kept, LEFT_OUT: ", ".join(left_out)} if left_out else kept


def _read(wanted: Property, said: str) -> Any:  # noqa: ANN401 - as it reads
    assert wanted.read is not None, "only headers that are sent are read"
    try:
        return wanted.read(said)
    except (ValueError, KeyError, binascii.Error) as error:
        form = wanted.form.replace("`", "")
        raise HttpRefusal(
            400, "bad-header", f"{wanted.header} has the form: {form}; {said[:_SAID_MAX]!r} has"
            " another; see the table in the reference",
        ) from error  # fmt: skip
