"""Checks each argument of each public call, once, before anything is sent.

`public` decorates a class, `checked` a function. The name of a parameter decides which values it
takes (`arguments`); its annotation says whether None or `...` may be given, too. A parameter that
the table does not know stops the import, so a new one cannot be forgotten. A wrong call is refused
before it costs anybody else anything.

An awaited call that is interrupted dooms the transaction that it was given: nobody knows how far it
came.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar, cast

from dray.client.calls.arguments import ExpectedValue, expected_of
from dray.client.calls.value_checks import made_by_dray
from dray.model.arguments import shown

_Class = TypeVar("_Class", bound=type)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_MARK: Final = "checks_arguments"
_INNER: Final = "_inner_calls"
_AWAITED: Final = "dray.client.awaited."


def public(*, made_by: str = "", inner: Collection[str] = ()) -> Callable[[_Class], _Class]:
    """Decorate a class of the public face: what is given to its methods is checked.

    `made_by` names the call that gives one, if programs do not make it themselves. `inner` names
    the methods that only Dray's own modules call.
    """

    def decorated(cls: _Class) -> _Class:
        methods = {
            name: function
            for name, function in vars(cls).items()
            if inspect.isfunction(function) and not name.startswith("_") and name not in inner
        }
        for name, function in methods.items():
            if not is_checked(function):
                setattr(cls, name, checked(function, cls.__name__))
        make = cls.__init__  # type: ignore[misc]
        if made_by:
            cls.__init__ = _made_by(cls, made_by)  # type: ignore[misc]
        elif inspect.isfunction(make):
            cls.__init__ = checked(make, cls.__name__)  # type: ignore[misc]
        setattr(cls, _INNER, frozenset(inner))
        return cls

    return decorated


def checked(
    function: Callable[_Arguments, _Result], owner: str = ""
) -> Callable[_Arguments, _Result]:
    """Decorate a function of the public face, or a method of the class `owner`."""
    signature = _Signature(function, owner)
    fitted = signature.fitted
    if inspect.iscoroutinefunction(function):
        # A coroutine function refuses when it is awaited, as it does everything else.
        @functools.wraps(function)
        async def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function has it
            taken = fitted(arguments, named)
            try:
                return await function(*taken, **named)
            except Exception:
                raise
            except BaseException:
                transaction = signature.given("transaction", taken, named)
                if transaction is not None:
                    transaction.awaited.broken_off()
                raise

    else:

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function has it
            return function(*fitted(arguments, named), **named)

    vars(call)[_MARK] = True
    return cast("Callable[_Arguments, _Result]", call)


def inner_calls(cls: type) -> frozenset[str]:
    """Name the methods of a public class that only Dray's own modules call."""
    return getattr(cls, _INNER, frozenset())


def is_checked(function: object) -> bool:
    """Whether a function checks its arguments; the blocking face of one that does, does so too."""
    return getattr(function, _MARK, False) is True


class _Signature:
    """The parameters of one function, and how the arguments of a call fit them."""

    def __init__(self, function: Callable[..., object], owner: str) -> None:
        self._call = f"{owner}.{function.__name__}" if owner else function.__name__
        self._skipped = 1 if owner else 0
        taken = list(inspect.signature(function).parameters.values())[self._skipped :]
        self._takes_any_name = any(each.kind is each.VAR_KEYWORD for each in taken)
        named = [each for each in taken if each.kind is not each.VAR_KEYWORD]
        self._checks = {each.name: self._expected(function, each).take for each in named}
        self._by_position = [each.name for each in named if each.kind is not each.KEYWORD_ONLY]
        self._needed = [
            (
                each.name,
                self._by_position.index(each.name) if each.name in self._by_position else -1,
            )
            for each in named
            if each.default is each.empty
        ]

    def fitted(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """Give the positional arguments to use, and put those to use into `named`.

        Raises `TypeError` for arguments that the function does not have, and what checks raise.
        """
        skipped = self._skipped
        count = len(arguments) - skipped
        found = list(arguments)
        if count:
            if count > len(self._by_position):
                raise TypeError(
                    f"{self._call} takes {len(self._by_position)} arguments by position, not"
                    f" {count}; it takes {self._all}"
                )
            for at, name in enumerate(self._by_position[:count], skipped):
                if name in named:
                    raise TypeError(f"{self._call} takes {name} once, and it was given twice")
                found[at] = self._checks[name](name, found[at])
        for name, value in named.items():
            check = self._checks.get(name)
            if check is not None:
                named[name] = check(name, value)
            elif not self._takes_any_name:
                raise TypeError(f"{self._call} takes no {shown(name)}; it takes {self._all}")
        for name, at in self._needed:
            if name not in named and not 0 <= at < count:
                raise TypeError(f"{self._call} needs {name}; it takes {self._all}")
        return found

    def given(self, name: str, arguments: Sequence[Any], named: dict[str, Any]) -> Any:  # noqa: ANN401 - as it was given
        """Give the argument of that name in a call that fits; None if it was left out."""
        if name not in self._by_position:
            return named.get(name)
        at = self._skipped + self._by_position.index(name)
        return arguments[at] if at < len(arguments) else named.get(name)

    @property
    def _all(self) -> str:
        return ", ".join(self._checks) or "nothing"

    def _expected(
        self, function: Callable[..., object], parameter: inspect.Parameter
    ) -> ExpectedValue:
        found = expected_of(parameter.name, self._call, function.__module__)
        assert found is not None, f"say in client/calls/arguments.py: {self._call}.{parameter.name}"
        # Annotations are texts here, or types where they were spelled out.
        annotation = str(parameter.annotation)
        if "None" in annotation:
            found = found.or_also(None)
        return found.or_also(...) if "EllipsisType" in annotation else found


def _made_by(cls: type, call: str) -> Callable[..., None]:
    """The constructor of what only Dray makes: its first argument is something of Dray's own."""
    make = cls.__init__  # type: ignore[misc]
    taken = next(islice(inspect.signature(make).parameters.values(), 1, None))
    wanted = str(taken.annotation)
    if taken.name == "awaited":
        is_inner = made_by_dray(cls.__name__, _AWAITED)
    else:
        is_inner = made_by_dray(wanted, "dray.")

    @functools.wraps(make)
    def made(self: object, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as it takes
        first = type(next(iter([*arguments, *named.values()]), None))
        if not is_inner(first) and not (wanted == "Dialer" and hasattr(first, "dial")):
            raise TypeError(f"a {cls.__name__} comes from {call}; do not make one yourself")
        make(self, *arguments, **named)

    vars(made)[_MARK] = True
    return made
