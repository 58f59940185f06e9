"""The link that opens a console once: a token in an address, in a file of its owner.

    http://127.0.0.1:7341/start/TOKEN

The first use of the link begins a session and makes the link void. The file then holds the next
link, so that the same user can open another browser.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from dray.own_files import create_own, make_own_folder

START: Final = "/start/"
_TOKEN_BYTES: Final = 32
"""256 bits, which nobody guesses."""


class StartLink:
    """The one link that is valid now."""

    def __init__(self, file: Path, origin: str) -> None:
        """Make a first link and write it to `file`; raises OSError."""
        self.file = file
        self._origin = origin
        self._token = ""
        make_own_folder(file.parent)
        self._renew()

    @property
    def url(self) -> str:
        """The link."""
        return f"{self._origin}{START}{self._token}"

    def is_exchanged(self, token: str) -> bool:
        """Whether this was the token of the link; if so, it is void from now on."""
        if not secrets.compare_digest(token.encode(), self._token.encode()):
            return False
        self._renew()
        return True

    def remove(self) -> None:
        """Remove the file."""
        self.file.unlink(missing_ok=True)

    def _renew(self) -> None:
        self._token = secrets.token_urlsafe(_TOKEN_BYTES)
        descriptor = create_own(self.file)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{self.url}\n")
