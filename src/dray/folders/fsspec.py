"""URLs of stores, opened by fsspec, which is an extra."""

from __future__ import annotations

import os
from typing import Any

from dray.errors import InvalidConfiguration


def is_url(target: str | os.PathLike[str]) -> bool:
    """Whether a target is the URL of a store, and no directory."""
    return isinstance(target, str) and "://" in target


def file_system(url: str) -> tuple[Any, str]:
    """Give the file system of a URL, and the path in it; raises `InvalidConfiguration`."""
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise InvalidConfiguration(
            f"{url} needs fsspec; install it with `pip install 'dray[fsspec]'`"
        ) from error
    try:
        found, path = url_to_fs(url)
    except (ImportError, ValueError, OSError) as error:
        raise InvalidConfiguration(
            f"{url} cannot be used: {error}; name a URL that fsspec knows"
        ) from error
    return found, path.rstrip("/")
