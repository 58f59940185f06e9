"""Calls of `Manager` about tokens, for the account that runs a queue manager, and about access."""

from __future__ import annotations

import secrets

from dray.client.connections.link import Link
from dray.model.access_info import AccessInfo
from dray.model.tokens import TOKEN_BYTES, TokenInfo, digest_of_token
from dray.wire.frames import Done
from dray.wire.token_frames import (
    AccessState,
    CreateToken,
    DescribeAccess,
    ListTokens,
    RevokeToken,
    TokenList,
)


async def create(link: Link, name: str, expires: float | None) -> str:
    """Make a token, and give it this once: whoever shows it is the caller `token:NAME`.

    The queue manager keeps only its hash. It expires after so many seconds, or never.
    """
    token = secrets.token_urlsafe(TOKEN_BYTES)
    lasts_us = 0 if expires is None else max(1, int(expires * 1_000_000))
    await link.ask(CreateToken(name, digest_of_token(token), lasts_us), Done)
    return token


async def list_all(link: Link) -> list[TokenInfo]:
    """The tokens of this queue manager, also those that have expired."""
    return (await link.ask(ListTokens(), TokenList)).tokens


async def revoke(link: Link, name: str) -> None:
    """Take a token no more; the connections of its holders end."""
    await link.ask(RevokeToken(name), Done)


async def describe_access(link: Link) -> AccessInfo:
    """The rules of access, the open connections, and what callers did lately."""
    return (await link.ask(DescribeAccess(), AccessState)).info
