"""Objects that can be awaited or used with `async with`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, Protocol, Self, TypeVar


class Closing(Protocol):
    """An object that ends with its `async with` block."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None: ...


_Opened = TypeVar("_Opened", bound=Closing)


class Opening(Generic[_Opened]):
    """Await it for the thing itself, or use it with `async with`, which also ends the thing."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, _Opened]]) -> None:
        """Take what opens it; nothing happens yet."""
        self._open = opened
        self._opened: _Opened | None = None

    def __await__(self) -> Generator[Any, Any, _Opened]:
        return self._open().__await__()

    async def __aenter__(self) -> _Opened:
        self._opened = await self._open()
        return await self._opened.__aenter__()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        assert self._opened is not None
        await self._opened.__aexit__(kind, *rest)
