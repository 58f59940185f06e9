"""Frames about tokens, for the owner of a queue manager, and about access (codes 130 to 135)."""

from __future__ import annotations

from dray.model.access_info import AccessInfo
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


class DescribeAccess(Head, frozen=True):
    """Answered by AccessState."""

    code = 134


class AccessState(Head, frozen=True):
    """Rules of access, open connections, and the last acts of callers."""

    code = 135
    pages = True
    info: AccessInfo
