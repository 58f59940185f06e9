"""Previews of bodies: text, JSON, a table, a picture, else bytes in hexadecimal.

Nothing of it is trusted. It is shown as text, also where it is HTML or SVG; a picture is one by its
first bytes, whatever its sender called it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dray.console.attachments import picture_type
from dray.model.limits import KIB, MIB

if TYPE_CHECKING:
    from typing import BinaryIO

PREVIEW_BYTES_MAX: Final = 64 * KIB
"""Two screens of text; a browser shows it at once."""
PARQUET_BYTES_MAX: Final = 16 * MIB
"""Bytes that are read for the first rows of a Parquet file: its footer and a few pages."""
_HEX_BYTES_MAX: Final = 4 * KIB
"""256 lines: more in hexadecimal is for a program."""
_ROWS_MAX: Final = 50
_COLUMNS_MAX: Final = 40
_CELL_CHARACTERS_MAX: Final = 200
_LINE_BYTES: Final = 16
_SEPARATORS: Final = ",;\t"
_LINES_TO_TELL: Final = 10
PARQUET: Final = b"PAR1"


class Preview(NamedTuple):
    """The beginning of a body.

    `kind` is "text", "json", "table", "picture", "long picture", "hex" or "empty". A picture that
    is longer than a preview is a "long picture", of which only the type is known.
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
        return Preview("picture" if size <= len(head) else "long picture", note=kind)
    text = _text_of(head, whole=size <= len(head))
    if text is None:
        return Preview("hex", _in_hex(head[:_HEX_BYTES_MAX]))
    if size <= len(head):
        indented = _json_of(text)
        if indented is not None:
            return Preview("json", indented)
    table = _table_of(text, name, whole=size <= len(head))
    return table or Preview("text", text)


def parquet_of(file: BinaryIO) -> Preview | None:
    """The first rows of a Parquet file; None without pyarrow, or if it is none."""
    try:
        from pyarrow import ArrowException, parquet  # noqa: PLC0415 - the console does without it
    except ModuleNotFoundError:
        return None
    try:
        opened = parquet.ParquetFile(file, buffer_size=PREVIEW_BYTES_MAX)
        names = tuple(opened.schema_arrow.names[:_COLUMNS_MAX])
        batches = opened.iter_batches(batch_size=_ROWS_MAX, columns=list(names))
        found = next(batches, None)
        rows = [] if found is None else found.to_pylist()
        count = opened.metadata.num_rows
    except (ArrowException, OSError, ValueError):
        return None
    shown = tuple(tuple(_cell(row[name]) for name in names) for row in rows)
    return Preview("table", "", names, shown, f"Parquet, {count:,} rows")


def _cell(value: Any) -> str:  # noqa: ANN401 - whatever a column holds
    text = "" if value is None else str(value)
    return text if len(text) <= _CELL_CHARACTERS_MAX else text[:_CELL_CHARACTERS_MAX] + "…"


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
        indented = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return indented if len(indented) <= 2 * PREVIEW_BYTES_MAX else text


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
    read = csv.reader(io.StringIO("\n".join(lines[: _ROWS_MAX + 1])), delimiter=separator)
    try:
        rows = [tuple(map(_cell, each[:_COLUMNS_MAX])) for each in read if each]
    except csv.Error:
        return None
    width = max(map(len, rows))
    even = [each + ("",) * (width - len(each)) for each in rows]
    return Preview("table", "", even[0], tuple(even[1:]), "separated values")


def _in_hex(data: bytes) -> str:
    return "\n".join(
        _line(at, data[at : at + _LINE_BYTES]) for at in range(0, len(data), _LINE_BYTES)
    )


def _line(offset: int, data: bytes) -> str:
    text = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in data)  # noqa: PLR2004
    return f"{offset:08x}  {data.hex(' '):<47}  {text}"
