"""Values that no caller should give, and whether an answer to one is a sentence of ours."""

from __future__ import annotations

import linecache
import re
import traceback
from pathlib import Path

import dray

SOURCE = str(Path(dray.__file__).parent)
_INTERPRETER = re.compile(
    r"object is not|object has no|has no attribute|not supported between|unexpected keyword"
    r"|positional argument|unhashable|argument must be|must be str|codec can't|embedded null"
    r"|object cannot be interpreted|not iterable|subscriptable|Expected `|too large to convert"
)
SENTENCE_CHARACTERS_MAX = 1_000


class Hostile:
    """Raises whatever is asked of it."""

    def _raise(self, *_: object) -> object:
        raise RuntimeError("hostile")

    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __len__ = __iter__ = _raise  # type: ignore[assignment]
    __index__ = __int__ = __float__ = __bytes__ = __fspath__ = __call__ = _raise
    __getitem__ = __contains__ = __lt__ = __gt__ = __le__ = __ge__ = __getattr__ = _raise


class HostileText(str):
    """A text in name only."""

    __slots__ = ()
    _raise = Hostile._raise
    __repr__ = __str__ = __eq__ = __hash__ = __len__ = __iter__ = _raise  # type: ignore[assignment]
    __getitem__ = __contains__ = encode = lower = startswith = partition = _raise  # type: ignore[assignment]


class HostileNumber(int):
    """A number in name only."""

    _raise = Hostile._raise
    __repr__ = __str__ = __eq__ = __hash__ = __bool__ = __index__ = __int__ = _raise  # type: ignore[assignment]
    __lt__ = __gt__ = __le__ = __ge__ = __add__ = __sub__ = __neg__ = _raise  # type: ignore[assignment]


def _released() -> memoryview:
    view = memoryview(b"gone")
    view.release()
    return view


VALUES = {
    "None": None,
    "True": True,
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": -float("inf"),
    "1e300": 1e300,
    "31 bits": 1 << 31,
    "63 bits": 1 << 63,
    "64 bits": 1 << 64,
    "-64 bits": -(1 << 64),
    "5000 digits": 10**5000,
    "a complex number": 1j,
    "no text": "",
    "a blank": " ",
    "a text": "x",
    "half a character": "\ud800",
    "a zero": "a\0b",
    "a line": "a\nb",
    "a huge text": "x" * 1_000_000,
    "no bytes": b"",
    "bytes": b"x",
    "a bytearray": bytearray(b"x"),
    "a view": memoryview(b"x"),
    "a released view": _released(),
    "an empty list": [],
    "a list": [1],
    "a nested list": [[[]]],
    "a tuple": (),
    "a dict": {},
    "a set": {1},
    "an object": object(),
    "a path": Path("x"),
    "a class": int,
    "an error": ValueError("x"),
    "a state": dray.TransferState.DONE,
    "...": ...,
    "what raises": Hostile(),
    "a text that raises": HostileText("x"),
    "a number that raises": HostileNumber(1),
}


def is_ours(error: BaseException) -> bool:
    """Whether an error was raised by a `raise` of Dray's, in a sentence of its own."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = linecache.getline(last.filename, last.lineno or 0).strip()
    text = str(error)
    return (
        isinstance(error, dray.DrayError | TypeError)
        and not isinstance(error, dray.ProtocolError | dray.StorePoisoned)
        and last.filename.startswith(SOURCE)
        and said.startswith("raise")
        and not _INTERPRETER.search(text)
        and bool(text)
        and len(text) <= SENTENCE_CHARACTERS_MAX
    )
