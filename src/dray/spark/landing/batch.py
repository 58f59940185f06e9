"""One micro-batch of large messages, seen as a whole: what is new, what came twice, what order.

A pure step between the executors, which put payloads in place, and the table, which makes them
count: `examine` takes the rows of a batch and how far landing has come, and gives the rows to
commit and how far it will have come then.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from dray.model.ids import split_id
from dray.spark.landing.summary import HoleLanded
from dray.spark.landing.table import QueueReached, Reached, TransactionReached
from dray.spark.positions import Range
from dray.spark.schema import LANDED, TAKEN, UNREADABLE
from dray.spark.source.offsets import QueueBirth, check_birth

QueueKey = tuple[str, str, str]
"""Manager's URL, manager id, queue."""


class Examined(NamedTuple):
    """The result of a batch. `queues` are all that it touched, also those with nothing new."""

    rows: pa.Table
    reached: Reached
    queues: tuple[QueueKey, ...]
    bytes: int
    duplicates: int
    replayed: int
    out_of_order: int
    holes: tuple[HoleLanded, ...]
    taken: int
    unreadable: tuple[tuple[QueueKey, str], ...] = ()
    """Queue and sequence id of what only a newer program can read."""
    files: int = 0
    """The number of rows of large messages."""


def in_order(rows: pa.Table) -> pa.Table:
    """The rows in queue order, which is the order of their commits."""
    return rows.sort_by(
        [(name, "ascending") for name in ("manager_id", "queue", "first_lookup_id")]
    )


def check_births(rows: pa.Table, reached: Reached) -> None:
    """Raise `QueueRecreated` if rows are of another birth of a queue than what was landed of it.

    The source compares with its checkpoint; this holds without a checkpoint, too.
    """
    for row in rows.group_by(["manager_id", "queue", "queue_born"]).aggregate([]).to_pylist():
        birth = QueueBirth(row["manager_id"], row["queue"], row["queue_born"])
        landed = reached.queue(birth.manager_id, birth.queue).born
        if landed:
            check_birth(birth, landed)


def examine(rows: pa.Table, landed: list[bool], reached: Reached) -> Examined:
    """Look at a batch in queue order; `landed` says of each row whether the table has it."""
    fresh: list[dict[str, Any]] = []
    holes: list[HoleLanded] = []
    unreadable: list[tuple[QueueKey, str]] = []
    queues: dict[QueueKey, None] = {}
    seen: set[str] = set()
    duplicates = replayed = disorder = taken = 0
    for row, is_landed in zip(rows.to_pylist(), landed, strict=True):
        manager_id, queue, sequence_id = row["manager_id"], row["queue"], row["sequence_id"]
        key = (row["manager"], manager_id, queue)
        queues[key] = None
        before = reached.birth(manager_id, queue, row["queue_born"])
        if row["state"] == TAKEN:
            reached = reached.with_queue(manager_id, queue, before)
            taken += 1
            continue
        if row["state"] == UNREADABLE:
            reached = reached.with_queue(manager_id, queue, before)
            unreadable.append((key, sequence_id))
            continue
        if is_landed or sequence_id in seen:
            # One that the table has may stand elsewhere in the queue than when it was landed.
            again = sequence_id in seen or not before.progress.has(row["first_lookup_id"])
            duplicates, replayed = duplicates + again, replayed + (not again)
            reached = reached.with_queue(manager_id, queue, _noted(before, row))
            continue
        seen.add(sequence_id)
        transactions, transaction = _advance(before.transactions, row)
        disorder += bool(fresh) and _out_of_order(fresh[-1], row)
        after = _noted(before, row)._replace(transactions=transactions)
        reached = reached.with_queue(manager_id, queue, after)
        fresh.append(
            {
                **row,
                "position_in_transaction": transaction.position,
                "transaction_size": transaction.size or None,
            }
        )
        holes.extend(_holes(row))
    table = pa.Table.from_pylist(
        [{name: row.get(name) for name in LANDED.names} for row in fresh], schema=LANDED
    )
    return Examined(
        table, reached, tuple(queues), sum(row["size"] for row in fresh if row["payload"]),
        duplicates, replayed, disorder, tuple(holes), taken, tuple(unreadable), len(fresh),
    )  # fmt: skip


def _noted(reached: QueueReached, row: dict[str, Any]) -> QueueReached:
    """Remember what of the queue this row settles: exact positions, or the message as such."""
    if row["missing"]:
        return reached._replace(holed=(*reached.holed, row["sequence_id"]))
    return reached._replace(progress=reached.progress.noting(_ranges(row)))


def _ranges(row: dict[str, Any]) -> Iterator[Range]:
    return ((first, last) for first, last in row["lookup_ranges"])


def _advance(
    reached: tuple[TransactionReached, ...], row: dict[str, Any]
) -> tuple[tuple[TransactionReached, ...], TransactionReached]:
    """The open transactions behind a row, one of a source at most, and the row's own one."""
    transaction_id, size = row["transaction_id"], row["transaction_size"] or 0
    if not transaction_id:
        return reached, TransactionReached()
    before = TransactionReached(transaction_id)
    others = []
    for each in reached:
        if each.transaction_id == transaction_id:
            before = each
        elif split_id(each.transaction_id)[0] != split_id(transaction_id)[0]:
            others.append(each)
    after = TransactionReached(transaction_id, before.position + 1, size or before.size)
    if after.position != after.size:
        others.append(after)
    return tuple(others), after


def _out_of_order(before: dict[str, Any], row: dict[str, Any]) -> bool:
    """Within one transaction a later message has a higher number; its sender drew them in order."""
    if not row["transaction_id"] or before["transaction_id"] != row["transaction_id"]:
        return False
    return split_id(before["sequence_id"])[1] >= split_id(row["sequence_id"])[1]


def _holes(row: dict[str, Any]) -> Iterator[HoleLanded]:
    if row["missing"]:
        yield HoleLanded(
            row["sequence_id"], row["label"], tuple(row["missing"]), row["fragment_count"]
        )
