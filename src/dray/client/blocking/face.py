"""How the blocking face of a class is made from the awaited one."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Concatenate, Generic, ParamSpec, TypeVar

from dray.client.connections.threads import run

_Arguments = ParamSpec("_Arguments")
_Awaited = TypeVar("_Awaited")
_Face = TypeVar("_Face")
_Result = TypeVar("_Result")


class Face(Generic[_Awaited]):
    """The blocking face of an awaited object."""

    def __init__(self, awaited: _Awaited) -> None:
        """Wrap the awaited object."""
        self.awaited = awaited

    def __repr__(self) -> str:
        return repr(self.awaited)


def blocking(
    method: Callable[Concatenate[_Awaited, _Arguments], Awaitable[_Result]],
) -> Callable[Concatenate[Face[_Awaited], _Arguments], _Result]:
    """Make the blocking method of a face from the awaited one."""

    @functools.wraps(method)
    def call(
        self: Face[_Awaited], /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Result:
        return run(method(self.awaited, *arguments, **named))

    return call


def blocking_as(
    face: Callable[[_Result], _Face],
    method: Callable[Concatenate[_Awaited, _Arguments], Awaitable[_Result]],
) -> Callable[Concatenate[Face[_Awaited], _Arguments], _Face]:
    """Make the blocking method of a face; its result gets a face of its own."""

    @functools.wraps(method)
    def call(
        self: Face[_Awaited], /, *arguments: _Arguments.args, **named: _Arguments.kwargs
    ) -> _Face:
        return face(run(method(self.awaited, *arguments, **named)))

    return call
