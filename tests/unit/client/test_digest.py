"""A digest that is taken while the body moves."""

from __future__ import annotations

import asyncio
import random

import pytest

from dray.client.connections.loops import LoopRuntime
from dray.client.connections.threads import BlockingRuntime, run
from dray.client.files.digest import RollingDigest
from dray.large.digests import DIGEST_KIND_DEFAULT, DIGESTS


async def digest_of(pieces, behind, runtime=None, kind=DIGEST_KIND_DEFAULT):
    async with RollingDigest(runtime or BlockingRuntime(), behind, kind) as digest:
        for piece in pieces:
            await digest.add(piece)
        return await digest.digest()


@pytest.mark.parametrize("sizes", [[], [5], [1 << 19], [1 << 19, 7, 1 << 18, 0, 1 << 19]])
@pytest.mark.parametrize("behind", [0, 1, 2])
@pytest.mark.parametrize("kind", DIGESTS)
def test_pieces_of_any_length_are_taken_in_order(sizes, behind, kind):
    pieces = [random.Random(size).randbytes(size) for size in sizes]
    whole = DIGESTS[kind]()
    whole.update(b"".join(pieces))
    assert run(digest_of(pieces, behind, kind=kind)) == whole.digest()
    assert asyncio.run(digest_of(pieces, behind, LoopRuntime(), kind)) == whole.digest()


async def digest_taken_in(pieces, runtime):
    """One that is added behind the back of who reads, and the rest in his own thread."""
    async with RollingDigest(runtime, 2) as digest:
        await digest.add(pieces[0])
        await digest.settle()
        for piece in pieces[1:]:
            digest.take_in(memoryview(piece))
        return await digest.digest()


@pytest.mark.parametrize("sizes", [[1 << 19, 7], [3, 1 << 19, 1 << 18]])
def test_pieces_may_be_taken_in_by_who_has_them(sizes):
    pieces = [random.Random(size).randbytes(size) for size in sizes]
    whole = DIGESTS[DIGEST_KIND_DEFAULT]()
    whole.update(b"".join(pieces))
    assert run(digest_taken_in(pieces, BlockingRuntime())) == whole.digest()
    assert asyncio.run(digest_taken_in(pieces, LoopRuntime())) == whole.digest()


def test_a_piece_may_change_once_enough_others_have_been_added():
    buffers = [bytearray(1 << 18) for _ in range(3)]
    expected = DIGESTS[DIGEST_KIND_DEFAULT]()

    def changing():
        for number in range(30):
            buffer = buffers[number % 3]
            buffer[:] = bytes([number]) * len(buffer)
            expected.update(buffer)
            yield memoryview(buffer)

    assert run(digest_of(changing(), behind=2)) == expected.digest()
