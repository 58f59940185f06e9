"""A cursor: goes through a queue message by message, and can receive the current one.

Kept by the client as a position, so it costs a queue manager nothing and survives its restarts.

    start --peek, next--> at a message --next--> at the next one --receive--> behind it --next-->
"""

from __future__ import annotations

from typing import Self

from dray.client.awaited.joining import InTransaction
from dray.client.awaited.reading import MessageReader
from dray.client.calls.public_calls import public
from dray.errors import IllegalCursorAction, MessageAlreadyReceived, MessageNotFound
from dray.forks import check_process, this_process
from dray.model.message import Message


@public(made_by="Queue.cursor")
class Cursor:
    """A position in a queue: before the first message, at one, after a received one, or closed."""

    def __init__(self, reader: MessageReader) -> None:
        """Begin before the first message of a queue."""
        self._reader = reader
        self._queue_name = reader.handle.name
        self._position = 0
        self._at_message = False
        self._closed = False
        self._process = this_process()

    async def peek(self, timeout: float | None = None) -> Message:
        """Look at the current message; at the beginning, at the first.

        Raises `MessageAlreadyReceived` if another reader took it, `IllegalCursorAction` if this
        cursor received it, and `ReceiveTimeout`.
        """
        self._check_open()
        if not self._position:
            return await self.next(timeout)
        self._check_at_message()
        try:
            return await self._reader.at(self._position, peek=True)
        except MessageNotFound as error:
            raise self._taken() from error

    async def next(self, timeout: float | None = None) -> Message:
        """Go to the next message and look at it; at the end, wait. Raises `ReceiveTimeout`.

        The cursor skips messages that other transactions hold.
        """
        self._check_open()
        message = await self._reader.next_after(self._position, timeout)
        assert message.lookup_id is not None
        self._position, self._at_message = message.lookup_id, True
        return message

    async def receive(
        self, timeout: float | None = None, transaction: InTransaction | None = None
    ) -> Message:
        """Receive the current message; at the beginning, the first.

        Raises as `peek` does. Then `next` continues.
        """
        self._check_open()
        if not self._position:
            await self.next(timeout)
        self._check_at_message()
        try:
            message = await self._reader.at(self._position, transaction=transaction)
        except MessageNotFound as error:
            raise self._taken() from error
        self._at_message = False
        return message

    async def close(self) -> None:
        """Close the cursor; it holds nothing."""
        self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_open(self) -> None:
        check_process(
            self._process,
            f"the cursor in {self._queue_name!r}",
            "take another one from its queue",
        )
        if self._closed:
            raise IllegalCursorAction("the cursor is closed; get another from its queue")

    def _check_at_message(self) -> None:
        self._check_open()
        if not self._at_message:
            raise IllegalCursorAction(
                "the cursor has received the message at which it stood; continue with next()"
            )

    def _taken(self) -> MessageAlreadyReceived:
        return MessageAlreadyReceived(
            f"another reader took or holds the message at position {self._position} of"
            f" {self._queue_name!r}, at which the cursor stands; continue with next()"
        )
