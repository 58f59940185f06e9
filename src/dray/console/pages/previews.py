"""Previews of bodies: text, JSON, a table, a picture, else bytes in hexadecimal.

Nothing of it is trusted. It is shown as text, also where it is HTML or SVG; a picture is one by its
first bytes, whatever its sender called it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple

from dray.console.attachments import is_shown, picture_type
from dray.console.parquet_rows import (
    ANSWER,
    ASKED,
    COLUMNS_MAX,
    ENVIRONMENT,
    ROWS_MAX,
    cell_of,
)
from dray.model.limits import KIB, MIB
from dray.model.words import counted, hex_line

PREVIEW_BYTES_MAX: Final = 64 * KIB
"""Two screens of text; a browser shows it at once."""
PARQUET_BYTES_MAX: Final = 16 * MIB
"""Bytes that are read for the first rows of a Parquet file: its footer and a few pages."""
_HEX_BYTES_MAX: Final = 4 * KIB
"""256 lines: more in hexadecimal is for a program."""
_PARQUET_S: Final = 20.0
"""A process that has not read the first rows by then is killed."""
_LINE_BYTES: Final = 16
_SEPARATORS: Final = ",;\t"
_LINES_TO_TELL: Final = 10
PARQUET: Final = b"PAR1"


class Preview(NamedTuple):
    """The beginning of a body.

    `kind` is "text", "json", "table", "picture", "long picture", "hex" or "empty". A picture that
    is longer than a preview, or has too many pixels, is a "long picture": its type alone is said.
    """

    kind: str
    text: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""


def preview_of(head: bytes, size: int, name: str = "") -> Preview:
    """A preview of a body of `size` bytes that begins with `head`."""
    if not size:
        return Preview("empty")
    if kind := picture_type(head[:16]):
        shown = size <= len(head) and is_shown(head)
        return Preview("picture" if shown else "long picture", note=kind)
    text = _text_of(head, whole=size <= len(head))
    if text is None:
        return Preview("hex", _in_hex(head[:_HEX_BYTES_MAX]))
    if size <= len(head):
        indented = _json_of(text)
        if indented is not None:
            return Preview("json", indented)
    table = _table_of(text, name, whole=size <= len(head))
    return table or Preview("text", text)


def parquet_of(size: int, given: Callable[[int, int], bytes]) -> Preview | None:
    """The first rows of a Parquet file, by a process with bounds; None if it gives none.

    `given` gives a range of the file. It waits: call this in a thread.
    """
    command = [sys.executable, "-m", "dray.console.parquet_rows", str(size)]
    with subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | ENVIRONMENT,
    ) as process:
        late = threading.Timer(_PARQUET_S, process.kill)
        late.start()
        try:
            answer = _answered(process, given)
        except OSError:
            # It ended while it was given a range.
            answer = b""
        finally:
            late.cancel()
            process.kill()
    if not answer:
        return None
    names, rows, count = json.loads(answer)
    note = f"Parquet, {counted(count, 'row')}"
    return Preview("table", "", tuple(names), tuple(map(tuple, rows)), note)


def _answered(process: subprocess.Popen[bytes], given: Callable[[int, int], bytes]) -> bytes:
    """Give ranges until the answer comes; nothing if the process ends, or reads too much."""
    assert process.stdin is not None
    assert process.stdout is not None
    read = 0
    while len(head := process.stdout.read(ASKED.size)) == ASKED.size:
        offset, length = ASKED.unpack(head)
        if offset == ANSWER:
            return process.stdout.read(min(length, PREVIEW_BYTES_MAX * _LINE_BYTES))
        read += length
        if read > PARQUET_BYTES_MAX:
            break
        process.stdin.write(given(offset, length))
        process.stdin.flush()
    return b""


def _text_of(head: bytes, *, whole: bool) -> str | None:
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(head, final=whole)
    except UnicodeDecodeError:
        return None
    fits = all(each.isprintable() or each in "\t\r\n\f" for each in text)
    return text if fits else None


def _json_of(text: str) -> str | None:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        indented = _indented(json.loads(text))
        # Half of a pair of surrogates is no character, though JSON can spell it.
        indented.encode()
    except (ValueError, RecursionError):
        return None
    return indented or text


def _indented(value: object) -> str:
    """JSON for people; "" if it would be long: each level of brackets indents all that is in it."""
    written = io.StringIO()
    for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
        written.write(piece)
        if written.tell() > 2 * PREVIEW_BYTES_MAX:
            return ""
    return written.getvalue()


def _table_of(text: str, name: str, *, whole: bool) -> Preview | None:
    """A table, where the first lines have as many separators each."""
    lines = text.splitlines()
    lines = lines if whole else lines[:-1]
    first = lines[:_LINES_TO_TELL]
    named = name.lower().endswith((".csv", ".tsv"))
    for separator in _SEPARATORS:
        counts = {each.count(separator) for each in first}
        alike = len(counts) == 1 and counts != {0}
        if len(first) > 1 and (alike or (named and 0 not in counts)):
            break
    else:
        return None
    read = csv.reader(io.StringIO("\n".join(lines[: ROWS_MAX + 1])), delimiter=separator)
    try:
        rows = [tuple(map(cell_of, each[:COLUMNS_MAX])) for each in read if each]
    except csv.Error:
        return None
    width = max(map(len, rows))
    even = [each + ("",) * (width - len(each)) for each in rows]
    return Preview("table", "", even[0], tuple(even[1:]), "separated values")


def _in_hex(data: bytes) -> str:
    return "\n".join(
        hex_line(at, data[at : at + _LINE_BYTES]) for at in range(0, len(data), _LINE_BYTES)
    )
