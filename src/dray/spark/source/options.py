"""The options of `format("dray")`, read and checked once.

    url                    managers, comma-separated
    queue                  names or patterns (`orders*`), comma-separated; also `journal:orders`,
                           `journal:` and `deadletter:`
    credentials            a TOML file with ca, cert and key for drays:// urls, and token_file
    content                messages | large
                           (plain-ranges, for landings: one row a task, in the columns of large,
                           with the range of messages that it is to read)
    bodies                 inline | reference (of messages; large ones are always references)
    startingOffsets        earliest | latest | offsets, see `offsets.py`; new queries only
    endingOffsets          latest | offsets; batch queries only
    startingTimestamp      instead of startingOffsets: from the first message that arrived then
    endingTimestamp        instead of endingOffsets: up to the last message that arrived before
    minOffsetsPerTrigger   rows that a micro-batch waits for, for maxTriggerDelay at most
    maxTriggerDelay        how long, as 90s, 15m or 2h
    maxOffsetsPerTrigger   rows of one micro-batch at most
    maxBytesPerTrigger     payload bytes of one micro-batch at most (one row may be more by itself)
    minPartitions          into how many tasks a micro-batch is divided, where it has that many
                           rows; without it, a few small messages are one task
    failOnDataLoss         whether the query ends if a queue is gone, or if a message left a queue
                           before the query read it
    acceptNewQueue         whether a queue that was made again is read from its first position; by
                           default only with failOnDataLoss=false
    claimTimeout           after how many seconds the query warns of a message that a receiver
                           holds, since it reads nothing behind that message
    commitEvery            for landings: a micro-batch that is far from its limits waits until this
                           long after the one before, as 10s
    markTaken              for landings: give a row, missing "taken", for each large message that
                           somebody took while it was read, instead of leaving it out
    pieceBytes             for landings: give a large message of this size or more to several tasks

Spark hands over the keys in any case: they compare without regard to it, as in Spark's own sources.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from dray.errors import InvalidConfiguration
from dray.model.arguments import shown
from dray.model.limits import RANGE_PIECES_MAX
from dray.model.words import size_in_bytes, whole_number
from dray.net.doors import default_url
from dray.spark.schema import schema_for
from dray.spark.source.offsets import Offsets, check_offsets

if TYPE_CHECKING:
    import pyarrow as pa

RANGES = "plain-ranges"
"""The content that landings read small messages by."""
CONTENTS = ("messages", "large", RANGES)
BODIES = ("inline", "reference")
PARTITIONS_DEFAULT = 4
TRIGGER_DELAY_S = 900.0
"""Fifteen minutes, as in Spark's source for Kafka."""
CLAIM_TIMEOUT_S = 60.0
"""A receiver that takes longer for one message is worth a look."""
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"([1-9][0-9]*) ?(ms|s|m|h)")
_LIMITS = (
    "minOffsetsPerTrigger", "maxTriggerDelay", "maxOffsetsPerTrigger", "maxBytesPerTrigger",
)  # fmt: skip
_KNOWN = (
    "url", "queue", "credentials", "content", "bodies", "startingOffsets", "endingOffsets",
    "startingTimestamp", "endingTimestamp", "minOffsetsPerTrigger", "maxTriggerDelay",
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "minPartitions", "failOnDataLoss",
    "acceptNewQueue", "claimTimeout",
)  # fmt: skip
_UNSAID = ("commitEvery", "markTaken", "pieceBytes", "path")
"""Options that a landing gives, and one that Spark gives: no page has them."""


class Options(NamedTuple):
    """Options of a reader.

    `starting` is "earliest", "latest" or offsets, `ending` is "latest" or offsets. The times are
    seconds since the epoch; where one is given, it counts instead of the offsets.
    """

    urls: tuple[str, ...]
    queues: tuple[str, ...]
    content: str = "messages"
    inline: bool = True
    starting: str | Offsets = "earliest"
    ending: str | Offsets = "latest"
    starting_time: float | None = None
    ending_time: float | None = None
    rows_min: int | None = None
    trigger_delay_s: float = TRIGGER_DELAY_S
    rows_max: int | None = None
    bytes_max: int | None = None
    partitions: int = PARTITIONS_DEFAULT
    partitions_given: bool = False
    fail_on_data_loss: bool = True
    accept_new_queue: bool = False
    claim_timeout_s: float = CLAIM_TIMEOUT_S
    commit_every_s: float = 0.0
    mark_taken: bool = False
    piece_bytes: int | None = None
    credentials: str | None = None
    columns: tuple[str, ...] | None = None

    @property
    def schema(self) -> pa.Schema:
        """All columns; a query that names its `columns` gets these alone, in its order."""
        return schema_for(self.content, cut=self.piece_bytes is not None)


def read_options(given: Mapping[str, str]) -> Options:
    """Read what stands in `.option(...)`; raises `InvalidConfiguration`."""
    by_key = {key.lower(): value for key, value in given.items()}
    unknown = sorted(set(by_key) - {name.lower() for name in (*_KNOWN, *_UNSAID)})
    if unknown:
        raise InvalidConfiguration(
            f"format('dray') has no option {unknown[0]!r}; it has {', '.join(_KNOWN)}"
        )
    fail_on_data_loss = _choice(by_key, "failOnDataLoss", ("true", "false")) == "true"
    accept_new_queue = _choice(by_key, "acceptNewQueue", ("false", "true")) == "true"
    if "acceptnewqueue" not in by_key:
        accept_new_queue = not fail_on_data_loss
    _refuse_contradictions(by_key)
    return Options(
        urls=_names({"url": default_url()} | by_key, "url"),
        queues=_names(by_key, "queue"),
        content=_choice(by_key, "content", CONTENTS),
        inline=_choice(by_key, "bodies", BODIES) == "inline",
        starting=_offsets(by_key, "startingOffsets", ("earliest", "latest")),
        ending=_offsets(by_key, "endingOffsets", ("latest",)),
        starting_time=_time(by_key, "startingTimestamp"),
        ending_time=_time(by_key, "endingTimestamp"),
        rows_min=_number(by_key, "minOffsetsPerTrigger"),
        trigger_delay_s=_duration(by_key, "maxTriggerDelay") or TRIGGER_DELAY_S,
        rows_max=_number(by_key, "maxOffsetsPerTrigger"),
        bytes_max=_size(by_key, "maxBytesPerTrigger"),
        partitions=min(_number(by_key, "minPartitions") or PARTITIONS_DEFAULT, RANGE_PIECES_MAX),
        partitions_given="minpartitions" in by_key,
        fail_on_data_loss=fail_on_data_loss,
        accept_new_queue=accept_new_queue,
        claim_timeout_s=_number(by_key, "claimTimeout") or CLAIM_TIMEOUT_S,
        commit_every_s=_duration(by_key, "commitEvery") or 0.0,
        mark_taken=_choice(by_key, "markTaken", ("false", "true")) == "true",
        piece_bytes=_size(by_key, "pieceBytes"),
        credentials=by_key.get("credentials"),
    )


def check_for_batch(given: Mapping[str, str]) -> None:
    """Refuse options that do nothing in a batch query; raises `InvalidConfiguration`."""
    by_key = {key.lower(): value for key, value in given.items()}
    for name in _LIMITS:
        if name.lower() in by_key:
            raise InvalidConfiguration(
                f"{name} limits a micro-batch, and spark.read has none; leave it out or use"
                " spark.readStream"
            )
    if by_key.get("startingoffsets") == "latest":
        raise InvalidConfiguration(
            "startingOffsets is 'latest': a batch query that begins behind the last message reads"
            " nothing; leave it out, give offsets, or use spark.readStream"
        )


def check_for_stream(given: Mapping[str, str]) -> None:
    """Refuse options that do nothing in a stream; raises `InvalidConfiguration`."""
    by_key = {key.lower() for key in given}
    for name in ("endingOffsets", "endingTimestamp"):
        if name.lower() in by_key:
            raise InvalidConfiguration(
                f"{name} ends a batch query, and a stream has no end; leave it out and use"
                " trigger(availableNow=True), or use spark.read"
            )


def _refuse_contradictions(options: Mapping[str, str]) -> None:
    for name in ("starting", "ending"):
        if f"{name}offsets" in options and f"{name}timestamp" in options:
            raise InvalidConfiguration(
                f"{name}Offsets and {name}Timestamp are both given; leave one of them out"
            )
    least, most = (_number(options, f"{each}OffsetsPerTrigger") for each in ("min", "max"))
    if least is None and "maxtriggerdelay" in options:
        raise InvalidConfiguration(
            "maxTriggerDelay says how long a micro-batch waits for minOffsetsPerTrigger, which is"
            " not given; add it or leave both out"
        )
    if least is not None and most is not None and least > most:
        raise InvalidConfiguration(
            f"minOffsetsPerTrigger is {least} and maxOffsetsPerTrigger is {most}; make the first"
            " one the lower of the two"
        )


def names_in(text: str) -> tuple[str, ...]:
    """The names in a list with commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    names = names_in(options.get(name, ""))
    if not names:
        raise InvalidConfiguration(f"format('dray') needs the option {name!r}")
    return names


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name.lower(), choices[0]).lower()
    if value not in choices:
        told = [each for each in choices if each != RANGES]
        raise InvalidConfiguration(f"{name} is {value!r}; it can be {' or '.join(told)}")
    return value


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    number = whole_number(text)
    if not number:
        raise InvalidConfiguration(
            f"{name} is {shown(text)}; it must be a whole number above zero, of at most 18 digits"
        )
    return number


def _size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    try:
        size = size_in_bytes(text)
    except InvalidConfiguration as error:
        raise InvalidConfiguration(f"{name}: {error}") from error
    if not size:
        raise InvalidConfiguration(f"{name} is {shown(text)}; it must be above zero")
    return size


def _time(options: Mapping[str, str], name: str) -> float | None:
    """Seconds since the epoch, of milliseconds as in Spark's source for Kafka, or of ISO text."""
    text = options.get(name.lower())
    if text is None:
        return None
    milliseconds = whole_number(text)
    if milliseconds is not None:
        return milliseconds / 1000
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidConfiguration(
            f"{name} is {shown(text)}; it can be milliseconds since the epoch, or ISO text such as"
            " 2026-11-22T10:00:00Z"
        ) from error
    return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()


def _duration(options: Mapping[str, str], name: str) -> float | None:
    text = options.get(name.lower())
    if text is None:
        return None
    found = _DURATION.fullmatch(text.strip())
    number = None if found is None else whole_number(found[1])
    if found is None or number is None:
        raise InvalidConfiguration(
            f"{name} is {shown(text)}; it must be a whole number with one of the units"
            f" {', '.join(_UNITS_S)}, such as 15m"
        )
    return number * _UNITS_S[found[2]]


def _offsets(options: Mapping[str, str], name: str, words: tuple[str, ...]) -> str | Offsets:
    text = options.get(name.lower(), words[0])
    if text in words:
        return text
    try:
        return check_offsets(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise InvalidConfiguration(
            f'{name} is {shown(text)}; it can be {", ".join(words)} or {{"<manager id>":'
            ' {"<queue>": {"born": <QueueInfo.born>, "lookup_id": <lookup id>}}}'
        ) from error
