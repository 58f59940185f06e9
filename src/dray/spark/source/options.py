"""The options of `format("dray")`, read and checked once.

    url                    managers, comma-separated
    queue                  names or patterns (`orders*`), comma-separated
    content                messages | large
    bodies                 inline | reference (of messages; large ones are always references)
    startingOffsets        earliest | latest | offsets, see `offsets.py`; new queries only
    maxOffsetsPerTrigger   rows of one micro-batch at most
    maxBytesPerTrigger     payload bytes of one micro-batch at most (one row may be more by itself)
    minPartitions          into how many tasks a micro-batch is divided, where it has that many rows
    failOnDataLoss         whether offsets that the queues no longer know end the query
    acceptNewQueue         whether a queue that was made again is read from its first position; by
                           default only with failOnDataLoss=false
    claimTimeout           after how many seconds the query warns of a message that a receiver
                           holds, since it reads nothing behind that message
    markTaken              for landings: give a row, missing "taken", for each large message that
                           somebody took while it was read, instead of leaving it out

Spark hands over the keys in any case: they compare without regard to it, as in Spark's own sources.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from dray.errors import InvalidConfiguration
from dray.model.sizes import size_in_bytes
from dray.spark.source.offsets import Offsets, check_offsets

CONTENTS = ("messages", "large")
BODIES = ("inline", "reference")
PARTITIONS_DEFAULT = 4
CLAIM_TIMEOUT_S = 60.0
"""A receiver that takes longer for one message is worth a look."""
_KNOWN = (
    "url", "queue", "content", "bodies", "startingOffsets", "maxOffsetsPerTrigger",
    "maxBytesPerTrigger", "minPartitions", "failOnDataLoss", "acceptNewQueue", "claimTimeout",
    "markTaken", "path",
)  # fmt: skip


class Options(NamedTuple):
    """Options of a reader. `starting` is "earliest", "latest" or offsets."""

    urls: tuple[str, ...]
    queues: tuple[str, ...]
    content: str = "messages"
    inline: bool = True
    starting: str | Offsets = "earliest"
    rows_max: int | None = None
    bytes_max: int | None = None
    partitions: int = PARTITIONS_DEFAULT
    fail_on_data_loss: bool = True
    accept_new_queue: bool = False
    claim_timeout_s: float = CLAIM_TIMEOUT_S
    mark_taken: bool = False


def read_options(given: Mapping[str, str]) -> Options:
    """Read what stands in `.option(...)`; raises `InvalidConfiguration`."""
    by_key = {key.lower(): value for key, value in given.items()}
    unknown = sorted(set(by_key) - {name.lower() for name in _KNOWN})
    if unknown:
        raise InvalidConfiguration(
            f"format('dray') has no option {unknown[0]!r}; it has {', '.join(_KNOWN[:-1])}"
        )
    fail_on_data_loss = _choice(by_key, "failOnDataLoss", ("true", "false")) == "true"
    accept_new_queue = _choice(by_key, "acceptNewQueue", ("false", "true")) == "true"
    if "acceptnewqueue" not in by_key:
        accept_new_queue = not fail_on_data_loss
    return Options(
        urls=_names(by_key, "url"),
        queues=_names(by_key, "queue"),
        content=_choice(by_key, "content", CONTENTS),
        inline=_choice(by_key, "bodies", BODIES) == "inline",
        starting=_starting(by_key.get("startingoffsets", "earliest")),
        rows_max=_number(by_key, "maxOffsetsPerTrigger"),
        bytes_max=_size(by_key, "maxBytesPerTrigger"),
        partitions=_number(by_key, "minPartitions") or PARTITIONS_DEFAULT,
        fail_on_data_loss=fail_on_data_loss,
        accept_new_queue=accept_new_queue,
        claim_timeout_s=_number(by_key, "claimTimeout") or CLAIM_TIMEOUT_S,
        mark_taken=_choice(by_key, "markTaken", ("false", "true")) == "true",
    )


def check_for_batch(given: Mapping[str, str]) -> None:
    """Refuse options that do nothing in a batch query; raises `InvalidConfiguration`."""
    by_key = {key.lower(): value for key, value in given.items()}
    for name in ("maxOffsetsPerTrigger", "maxBytesPerTrigger"):
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


def _names(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in options.get(name, "").split(",") if part.strip())
    if not names:
        raise InvalidConfiguration(f"format('dray') needs the option {name!r}")
    return names


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name.lower(), choices[0]).lower()
    if value not in choices:
        raise InvalidConfiguration(f"{name} is {value!r}; it can be {' or '.join(choices)}")
    return value


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise InvalidConfiguration(f"{name} is {text!r}; it must be a whole number above zero")
    return int(text)


def _size(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    size = size_in_bytes(text)
    if not size:
        raise InvalidConfiguration(f"{name} is {text!r}; it must be above zero")
    return size


def _starting(text: str) -> str | Offsets:
    if text in ("earliest", "latest"):
        return text
    try:
        return check_offsets(json.loads(text))
    except ValueError as error:
        raise InvalidConfiguration(
            f'startingOffsets is {text!r}; it can be earliest, latest or {{"<manager id>":'
            ' {"<queue>": {"born": <QueueInfo.born>, "lookup_id": <lookup id>}}}'
        ) from error
