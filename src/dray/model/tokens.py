"""Tokens: random texts by which callers prove who they are. A manager keeps their hashes."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

TOKEN_BYTES: Final = 32
"""Drawn at random; nobody guesses them, so a plain hash is as good as a slow one."""
_SAID = b"dray token "


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token of a queue manager, by its name; times in seconds since the epoch."""

    name: str
    created: float
    expires: float | None = None


def digest_of_token(token: str) -> bytes:
    """The hash by which a queue manager knows a token."""
    return sha256(_SAID + token.encode("utf-8", "surrogatepass")).digest()
