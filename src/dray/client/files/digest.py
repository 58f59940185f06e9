"""The digest of a body, taken by a worker while the body moves."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

from dray.client.connections.runtime import Runtime
from dray.forks import check_process, is_here, this_process
from dray.large.digests import DIGEST_KIND_DEFAULT, DIGESTS

_WORTH_A_THREAD_BYTES = 1 << 18
"""Hashing less takes about as long as handing it over."""


class RollingDigest:
    """The digest over pieces. At most `behind` pieces are waited for later; use `async with`."""

    def __init__(self, runtime: Runtime, behind: int, kind: str = DIGEST_KIND_DEFAULT) -> None:
        """Begin with no piece; a piece must stay as it is until `behind` more have been added."""
        self._hash = DIGESTS[kind]()
        self._runtime = runtime
        self._behind = behind
        self._worker: ThreadPoolExecutor | None = None
        self._under_way: deque[Future[object]] = deque()
        self._process = this_process()

    async def add(self, piece: memoryview | bytes) -> None:
        """Take in a piece, in the background if it is long."""
        check_process(self._process, "a body that is being hashed", "begin another one here")
        if len(piece) < _WORTH_A_THREAD_BYTES and not self._under_way:
            self._hash.update(piece)
            return
        if self._worker is None:
            self._worker = ThreadPoolExecutor(1, "dray-digest")
        self._under_way.append(self._worker.submit(self._hash.update, piece))
        await self.settle(self._behind)

    def take_in(self, piece: memoryview) -> None:
        """Take in a piece in the caller's own thread; nothing may be under way."""
        assert not self._under_way, "pieces are taken in in their order"
        self._hash.update(piece)

    async def settle(self, behind: int = 0) -> None:
        """Wait until at most `behind` pieces are still to be taken in."""
        while len(self._under_way) > behind:
            taken = self._under_way.popleft()
            # The way through the runtime costs more than most pieces that are done already.
            if taken.done():
                taken.result()
            else:
                await self._runtime.result(taken)

    async def digest(self) -> bytes:
        """The digest of all pieces."""
        await self.settle()
        return self._hash.digest()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if not is_here(self._process):
            # The thread that takes the pieces in is the parent's, and there is none in a child.
            return
        await self.settle()
        if self._worker is not None:
            # It has nothing left to do, so its end is not waited for.
            self._worker.shutdown(wait=False)
            self._worker = None
