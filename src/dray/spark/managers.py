"""Connections of source, landing and sink to queue managers, made as an ordinary client.

A manager that is being restarted is waited for, for as long as `PATIENCE_S`; a connection that
breaks in the middle of a payload ends the task, and Spark tries the task again.
"""

from __future__ import annotations

import socket
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dray.client.blocking.manager import Manager, connect
from dray.errors import AccessDenied, ConnectionLost, InvalidConfiguration

if TYPE_CHECKING:
    from dray.client.blocking.queue import Queue

PATIENCE_S = 30.0
"""Longer than a manager takes to recover; shorter than a person waits without being told."""
_PAUSE_S = 0.3
_CREDENTIALS = ("ca", "cert", "key", "token_file")
_Result = TypeVar("_Result")


def patiently(call: Callable[[], _Result]) -> _Result:
    """Call until a connection holds; raises `ConnectionLost` when patience is at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return call()
        except ConnectionLost:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE_S)


def read_credentials(path: str | None, url: str) -> dict[str, str]:
    """The arguments of `dray.connect` for a URL, from a TOML file; names in it are relative to it.

    Raises `InvalidConfiguration`. A URL without TLS takes the token only.
    """
    if path is None:
        return {}
    try:
        given = tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidConfiguration(
            f"credentials names {path}, which cannot be read on {socket.gethostname()}: {error};"
            " the driver and all executors need this TOML file"
        ) from error
    for name, value in given.items():
        if name not in _CREDENTIALS or not isinstance(value, str):
            raise InvalidConfiguration(
                f"{path} has {name} = {value!r}; it can have {', '.join(_CREDENTIALS)}, each the"
                " name of a file"
            )
    secure = url.startswith("drays:")
    return {
        name: str(Path(path).absolute().parent / value)
        for name, value in given.items()
        if secure or name == "token_file"
    }


def credentials_named(path: str | Path | None, urls: str) -> str | None:
    """The absolute name of a credentials file, since executors work in other directories.

    Raises `InvalidConfiguration` if it cannot be used for one of the comma-separated `urls`.
    """
    if path is None:
        return None
    named = str(Path(path).absolute())
    for url in urls.split(","):
        read_credentials(named, url.strip())
    return named


class Managers:
    """Connections to managers, made when first needed and shared by one task or one planner."""

    def __init__(self, credentials: str | None = None, *, at_once: bool = False) -> None:
        """Begin without any. `credentials` names the file that `read_credentials` reads.

        With `at_once`, a manager that has never answered is not waited for.
        """
        self._credentials = credentials
        self._at_once = at_once
        self._answered: set[str] = set()
        self._by_url: dict[str, Manager] = {}

    def at(self, url: str) -> Manager:
        """The manager at a URL."""
        if url not in self._by_url:
            with_files = read_credentials(self._credentials, url)
            try:
                if self._at_once and url not in self._answered:
                    self._by_url[url] = connect(url, **with_files)
                else:
                    self._by_url[url] = patiently(lambda: connect(url, **with_files))
            except (AccessDenied, ConnectionLost) as error:
                if not url.startswith("drays:"):
                    raise
                raise type(error)(
                    f"{error}; a Spark query names these files {self._where}"
                ) from error
            self._answered.add(url)
        return self._by_url[url]

    @property
    def _where(self) -> str:
        return f"in {self._credentials}" if self._credentials else "with the option credentials"

    def raw_queue(self, url: str, queue: str) -> Queue:
        """A handle that sees single messages, also in a queue in large use."""
        return self.at(url).queue(queue, raw=True)

    def close(self) -> None:
        """Close all; they are made anew when needed again."""
        while self._by_url:
            self._by_url.popitem()[1].close()
