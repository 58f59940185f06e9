"""Tells a directory to land into from the URL of a store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from dray.errors import InvalidConfiguration


def directory_of(out: str) -> Path | None:
    """The directory that a landing was told to land into; None for the URL of a store.

    Raises `InvalidConfiguration` for what is neither.
    """
    scheme, separator, rest = out.partition(":/")
    if not separator or not scheme.isalnum() or not scheme[0].isalpha() or len(scheme) == 1:
        return Path(out)
    if scheme.lower() == "file":
        url = urlsplit(out)
        if url.netloc in ("", "localhost"):
            return Path(unquote(url.path))
        raise InvalidConfiguration(f"{out} names another machine; write file:///path")
    if not rest.startswith("/"):
        raise InvalidConfiguration(f"cannot land into {out!r}; write {scheme}://{rest}")
    return None
