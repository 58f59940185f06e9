"""Whether a handler of messages can handle any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dray.errors import InvalidArgument


class KnownHandler:
    """The handler that was looked at last: it is not looked at again for each message."""

    def __init__(self) -> None:
        """Know none."""
        self._known: object = None

    def check(self, handler: Callable[..., object]) -> None:
        """Raise `InvalidArgument` for a handler that would fail or do nothing for each message.

        The policy would give up all messages of the queue, or all of them would count as handled.
        """
        code = getattr(handler, "__code__", handler)
        if code is not self._known:
            _check(handler)
            self._known = code


def _check(handler: Any) -> None:  # noqa: ANN401 - anything that can be called
    import inspect

    name = getattr(handler, "__qualname__", repr(handler))
    called = type(handler).__call__ if not hasattr(handler, "__code__") else handler
    if any(map(inspect.isgeneratorfunction, (handler, called))) or any(
        map(inspect.isasyncgenfunction, (handler, called))
    ):
        raise InvalidArgument(
            f"handler: {name} is a generator function, and a call of it does nothing; write it"
            " without yield",
            argument="handler",
        )
    try:
        inspect.signature(handler).bind(None, None)
    except ValueError:
        return  # A function of another language does not tell what it takes.
    except TypeError as error:
        raise InvalidArgument(
            f"handler: {name} cannot be called with a message and its transaction: {error}",
            argument="handler",
        ) from error
