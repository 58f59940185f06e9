"""Judges what landed by what was sent, and shares no code with what landed it; run as a program.

judge.py SENT OUT, where SENT has a JSON line for each message, in the order of sending: `id`,
`sha256` and `size` of the body, `large`, and `transaction`, a number. It prints what is wrong, one
line each, and ends with the number of these lines.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq


def rows_in_order(out):
    """The rows as a reader of the table finds them: commit after commit."""
    rows = []
    for path in sorted((out / "table").resolve().glob("landed-*.parquet")):
        rows += pq.read_table(path).to_pylist()
    return rows


def complaints(sent, out):
    rows = rows_in_order(out)
    landed = {row["sequence_id"]: row for row in rows}
    yield from doubled(sent, rows)
    for each in sent:
        yield from changed(each, landed.get(each["id"]), out)
    yield from disordered(sent, rows)
    yield from torn(sent, landed)
    yield from missized(sent, landed)
    yield from left_behind(rows, out)


def doubled(sent, rows):
    known = {each["id"] for each in sent}
    for identity, count in Counter(row["sequence_id"] for row in rows).items():
        if count > 1:
            yield f"{identity} has {count} rows"
        if identity not in known:
            yield f"{identity} was never sent"


def changed(message, row, out):
    if row is None:
        yield f"{message['id']} is lost"
        return
    body = row["body"]
    if message["large"]:
        path = out / "payload" / str(row["payload"])
        if row["state"] != "landed" or not path.is_file():
            yield f"{message['id']} has no payload: {row['state']}, {row['payload']}"
            return
        body = path.read_bytes()
    if len(body) != message["size"] or hashlib.sha256(body).hexdigest() != message["sha256"]:
        yield f"{message['id']} has other bytes than were sent"


def disordered(sent, rows):
    """Each kind is in order by itself, since it has offsets of its own."""
    for large in (True, False):
        wanted = [each["id"] for each in sent if each["large"] == large]
        found = [row["sequence_id"] for row in rows if (row["body"] is None) == large]
        if list(dict.fromkeys(found)) != wanted:
            yield f"{'large' if large else 'small'} messages are not in the order of sending"


def torn(sent, landed):
    groups = {}
    for each in sent:
        if each["id"] in landed:
            group = groups.setdefault(each["transaction"], set())
            group.add(landed[each["id"]]["transaction_id"])
    named = [identity for group in groups.values() for identity in group]
    if any(len(group) != 1 for group in groups.values()) or len(set(named)) != len(groups):
        yield "transactions are not those that were sent"


def missized(sent, landed):
    """Each row says how many messages its transaction has, small and large ones."""
    sizes = Counter(each["transaction"] for each in sent)
    for each in sent:
        row = landed.get(each["id"])
        if row is not None and row["transaction_size"] != sizes[each["transaction"]]:
            yield (
                f"{each['id']} is said to be of a transaction of {row['transaction_size']} messages"
                f" that has {sizes[each['transaction']]}"
            )


def left_behind(rows, out):
    files = {path.relative_to(out).as_posix() for path in (out / "payload").rglob("*")}
    expected = {f"payload/{row['payload']}" for row in rows if row["payload"]}
    for name in sorted(files ^ expected):
        yield f"{name} is {'left behind' if name in files else 'missing'}"
    for path in (out / "_dray" / "messages").glob("*"):
        yield f"{path.relative_to(out)} is left behind"


if __name__ == "__main__":
    ledger = [json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()]
    found = list(complaints(ledger, Path(sys.argv[2])))
    print("\n".join(found))
    sys.exit(min(len(found), 100))
