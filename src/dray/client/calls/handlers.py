"""Whether a function that is called with what was received can do anything with it."""

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
            check_takes_both(handler, "handler", "a message and its transaction")
            self._known = code


def check_takes_both(function: Any, argument: str, both: str) -> None:  # noqa: ANN401 - any callable
    """Raise `InvalidArgument` unless a call of `function` with two arguments can do something.

    `argument` names it in the error, `both` what it is called with.
    """
    import inspect

    name = getattr(function, "__qualname__", repr(function))
    called = function if hasattr(function, "__code__") else type(function).__call__
    looks = (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
    if any(look(each) for look in looks for each in (function, called)):
        raise InvalidArgument(
            f"{argument}: {name} is a generator function, and a call of it does nothing; write it"
            " without yield",
            argument=argument,
        )
    try:
        inspect.signature(function).bind(None, None)
    except ValueError:
        return  # A function of another language does not tell what it takes.
    except TypeError as error:
        raise InvalidArgument(
            f"{argument}: {name} cannot be called with {both}: {error}", argument=argument
        ) from error


def refuse_coroutine_function(function: Any, argument: str) -> None:  # noqa: ANN401 - any callable
    """Raise `InvalidArgument` for a function of which nobody would await the calls."""
    import inspect

    if inspect.iscoroutinefunction(function):
        raise InvalidArgument(
            f"{argument}: {function.__qualname__} is a coroutine function, and nobody awaits it"
            " here; write it with def",
            argument=argument,
        )
