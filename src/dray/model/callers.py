"""The caller of a session: the account, certificate or token that stands behind a connection.

The daemon computes the caller when it accepts a connection, before it reads a byte of it. Only
the first frame changes the caller: by a token, or by the name for which the owner acts.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dray.model.limits import CALLER_NAME_CHARACTERS_MAX


class Caller(NamedTuple):
    """The party at the other end of an accepted connection."""

    name: str
    """`user:NAME`, `cert:NAME`, `token:NAME`, or one of `owner`, `anyone` and `nobody`."""
    groups: tuple[str, ...] = ()
    """Groups of a `user:NAME`, as the kernel knows them: `group:NAME` each."""
    address: str = ""
    """HOST:PORT of the connection, or `process PID` on a Unix socket; empty inside a process."""
    owner: bool = False
    """Whether this is the account that runs the queue manager; it may do everything."""

    is_private: bool = False
    """Whether nobody else can read the connection: a Unix socket, TLS, or one within a machine."""

    @property
    def host(self) -> str:
        """The machine that called; empty on a Unix socket and inside a process."""
        host, colon, _ = self.address.rpartition(":")
        return host if colon else ""

    @property
    def place(self) -> str:
        """The name and the machine, without the port: the same for each connection of a caller."""
        return f"{self.name} at {self.host}" if self.host else self.name

    def __str__(self) -> str:
        """The name and the address, for people."""
        return f"{self.name} ({self.address})" if self.address else self.name


class Credential(NamedTuple):
    """The proof of a program in its first frame; without one, the connection tells who it is."""

    token: str = ""
    caller: str = ""
    """`cert:NAME`, for whom the owner of the queue manager acts."""

    def __repr__(self) -> str:
        """Without the token, which stands in no log and no trace."""
        return f"Credential(caller={self.caller!r})"


OWNER: Final = Caller("owner", owner=True)
"""A program that holds the queue manager inside itself (`dray.open`)."""
ANYONE: Final = "anyone"
"""The name of a caller that has not said who it is, at an address that lets everyone in."""
NOBODY: Final = "nobody"
"""The name of a caller that has not said who it is, anywhere else; it may do nothing."""


def caller_name(kind: str, name: str) -> str:
    """`kind:name`, or `nobody` if a program could not write that name into a line of a log."""
    fits = name.isprintable() and 0 < len(name) <= CALLER_NAME_CHARACTERS_MAX and " " not in name
    return f"{kind}:{name}" if fits else NOBODY
