"""By what a whole file is known: a digest and its kind, written `sha256:<hexadecimal>`."""

from __future__ import annotations

from typing import NamedTuple, Self

TEXT_PATTERN = "^[a-z0-9]+:[0-9a-f]{64}$"


class Fingerprint(NamedTuple):
    """A digest of 32 bytes and its kind."""

    kind: str
    digest: bytes

    def __str__(self) -> str:
        """As it stands in a reference."""
        return f"{self.kind}:{self.digest.hex()}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Read one; the text fits `TEXT_PATTERN`."""
        kind, _, digits = text.partition(":")
        return cls(kind, bytes.fromhex(digits))
