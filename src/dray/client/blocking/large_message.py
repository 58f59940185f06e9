"""The blocking face of `awaited.large_message`."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Self

from dray.client.awaited.described import Described
from dray.client.awaited.large_message import LargeMessage as AwaitedLargeMessage
from dray.client.blocking.face import Face, blocking
from dray.client.blocking.large_message_file import BufferedLargeMessageFile
from dray.client.calls.public_calls import public
from dray.client.connections.threads import iterate, run


@public(made_by="LargeMessageQueue.receive")
class LargeMessage(Described, Face[AwaitedLargeMessage]):
    """A received large message: its properties, and its body, which can be read repeatedly.

    Without a transaction of the caller `receive` began one for it. As a context manager the message
    commits it, or aborts it on an exception. Without `with`, `commit` receives the message for good
    and `close` gives it back; a message that is dropped while its transaction is open is given back
    with a `ResourceWarning`. A transaction of the caller is left alone.
    """

    def __init__(self, awaited: AwaitedLargeMessage) -> None:
        """Wrap the awaited message."""
        Face.__init__(self, awaited)
        Described.__init__(self, awaited.said)

    read = blocking(AwaitedLargeMessage.read)
    readinto = blocking(AwaitedLargeMessage.readinto)
    body = blocking(AwaitedLargeMessage.body)
    save_to = blocking(AwaitedLargeMessage.save_to)
    read_range = blocking(AwaitedLargeMessage.read_range)
    commit = blocking(AwaitedLargeMessage.commit)
    close = blocking(AwaitedLargeMessage.close)

    def open(self) -> io.BufferedReader:
        """Open the body as a seekable file; any number may be open at a time.

        A file can be read while the transaction of the message is open. Reads check the CRC32C of
        the fragments, not the digest of the body. Raises `LargeMessageCorrupt`.
        """
        return BufferedLargeMessageFile(self.awaited.open())

    def __iter__(self) -> Iterator[bytes]:
        """Iterate over the body in pieces, from its beginning; raises as `read` does."""
        return iterate(aiter(self.awaited))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        run(self.awaited.__aexit__(kind, *rest))
