"""The reference: the message by which a consumer learns of an offer (docs/formats/transfer.md)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, Self

import msgspec

from dray.errors import InvalidArgument
from dray.large.digests import DIGESTS
from dray.model.arguments import no_sense
from dray.model.limits import (
    LABEL_CHARACTERS_MAX,
    TRANSFER_FRAGMENT_BYTES_MAX,
    TRANSFER_FRAGMENTS_MAX,
    TRANSFER_WINDOW_MAX,
)
from dray.model.message import Buffer, Message
from dray.transfer.events import Terms

EXTENSION: Final = b"dray-transfer/1"
Consumers = Literal["one", "many"]
TEXT_PATTERN = "^[a-z0-9]+:[0-9a-f]{64}$"


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of an offered file before a byte of it moves."""

    transfer: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    label: str
    size: Annotated[int, msgspec.Meta(ge=0)]
    digest: Annotated[str, msgspec.Meta(pattern=TEXT_PATTERN)]
    fragment_size: Annotated[int, msgspec.Meta(ge=1, le=TRANSFER_FRAGMENT_BYTES_MAX)]
    window_size: Annotated[int, msgspec.Meta(ge=1, le=TRANSFER_WINDOW_MAX)]
    consumers: Consumers = "one"

    @property
    def terms(self) -> Terms:
        """The terms on which the file is sent."""
        return Terms(self.size, self.fragment_size, self.window_size)

    @property
    def fingerprint(self) -> Fingerprint:
        """The digest and its kind."""
        return Fingerprint.read(self.digest)


_decode = msgspec.json.Decoder(Reference).decode


def reference_message(reference: Reference, live_s: float | None) -> Message:
    """The message; after `live_s`, when nobody may join any more, it leaves its queue by itself."""
    return Message(
        body=msgspec.json.encode(reference),
        label=reference.label[:LABEL_CHARACTERS_MAX],
        correlation_id=reference.transfer,
        extension=EXTENSION,
        time_to_be_received=live_s,
    )


def read_reference(extension: Buffer, body: Buffer) -> Reference | None:
    """Read a message that may be a reference; None if it is none that can be understood."""
    if bytes(extension) != EXTENSION:
        return None
    try:
        reference = _decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None
    return reference if reference.fingerprint.kind in DIGESTS else None


def check_terms(size: int, fragment_size: int, window_size: int) -> None:
    """Raise `InvalidArgument` for terms out of bounds."""
    if not 1 <= fragment_size <= TRANSFER_FRAGMENT_BYTES_MAX:
        bounds = f"a number of bytes from 1 to {TRANSFER_FRAGMENT_BYTES_MAX}"
        raise no_sense("fragment_size", bounds, fragment_size)
    if not 1 <= window_size <= TRANSFER_WINDOW_MAX:
        bounds = f"a number of fragments from 1 to {TRANSFER_WINDOW_MAX}"
        raise no_sense("window_size", bounds, window_size)
    if size > fragment_size * TRANSFER_FRAGMENTS_MAX:
        raise InvalidArgument(
            f"a file of {size} bytes has more than {TRANSFER_FRAGMENTS_MAX} fragments of"
            f" {fragment_size} bytes; choose a larger fragment_size",
            argument="fragment_size",
        )


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
