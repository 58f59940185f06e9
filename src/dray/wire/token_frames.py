"""Frames about tokens, which only the owner of a queue manager may say (codes 130 to 133)."""

from __future__ import annotations

from dray.model.tokens import TokenInfo
from dray.wire.head import Head


class CreateToken(Head, frozen=True):
    """Take a token from now on; the manager is told its hash only. Answered by Done.

    It expires after `lasts_us` microseconds, or never with 0.
    """

    code = 130
    name: str
    digest: bytes
    lasts_us: int = 0


class ListTokens(Head, frozen=True):
    """Answered by TokenList."""

    code = 131


class TokenList(Head, frozen=True):
    """All tokens, by name."""

    code = 132
    pages = True
    tokens: list[TokenInfo]


class RevokeToken(Head, frozen=True):
    """Take a token no more, and end the sessions of its callers. Answered by Done."""

    code = 133
    name: str
