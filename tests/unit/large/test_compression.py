"""Fragments compressed where it pays; what is hostile is refused before it grows."""

from __future__ import annotations

import random

import pytest

from dray.errors import ProtocolError
from dray.large import compression
from dray.large.compression import Compressor, unpacked, zstd

TEXT = b"a cart for heavy loads, low and strong; " * 100
NOISE = random.Random(1).randbytes(4_000)
MOST = 4_000_000


def test_what_compresses_comes_back():
    packed = Compressor("zstd").packed(TEXT)
    assert packed is not None
    assert len(packed) < len(TEXT) / 4
    assert unpacked(memoryview(packed), len(TEXT), MOST) == TEXT


@pytest.mark.parametrize("piece", [b"", b"x", b"x" * 511, NOISE])
def test_what_does_not_pay_goes_as_it_is(piece):
    assert Compressor("zstd").packed(piece) is None


def test_the_shortest_fragment_that_pays_is_compressed():
    assert Compressor("zstd").packed(b"x" * 512) is not None


@pytest.mark.parametrize("more", [0, 1])
def test_compression_pays_up_to_its_share_and_not_a_byte_beyond(monkeypatch, more):
    piece = bytes(8 * 1024)
    most = len(piece) * compression._PAYS_EIGHTHS // 8
    monkeypatch.setattr(zstd, "compress", lambda *_, **__: bytes(most + more))
    assert (Compressor("zstd").packed(piece) is None) == bool(more)


def test_nothing_is_compressed_unless_asked_for():
    assert Compressor(None).packed(TEXT) is None


def test_a_body_that_does_not_compress_is_tried_less_and_less(monkeypatch):
    tried = []
    compress = zstd.compress

    def counting(piece, *, level):
        tried[-1] = True
        return compress(piece, level=level)

    def tries(count):
        tried.clear()
        for _ in range(count):
            tried.append(False)
            assert compressor.packed(NOISE) is None
        return [at for at, was_tried in enumerate(tried) if was_tried]

    monkeypatch.setattr(zstd, "compress", counting)
    compressor = Compressor("zstd")
    assert tries(64) == [0, 2, 6, 14, 30, 46, 62]
    # What compresses after all is found out, and tried each time from then on.
    packed = [compressor.packed(TEXT) for _ in range(32)]
    assert all(packed[16:])
    assert tries(8) == [0, 2, 6], "it begins anew"


BOMB = zstd.compress(bytes(1 << 26), level=1)
PACKED = zstd.compress(TEXT, level=1)


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        (BOMB, len(TEXT)),
        (BOMB, MOST),
        (BOMB, MOST + 1),
        (BOMB, 1 << 26),
        (PACKED, len(TEXT) - 1),
        (PACKED, len(TEXT) + 1),
        (PACKED, 0),
        (zstd.compress(b"", level=1), 0),
        (PACKED, -1),
        (PACKED[:-1], len(TEXT)),
        (PACKED[:20], len(TEXT)),
        (PACKED + b"x", len(TEXT)),
        (PACKED + PACKED, len(TEXT)),
        (b"", 1),
        (b"no frame at all", 15),
    ],
)
def test_what_is_hostile_is_refused(packed, size):
    with pytest.raises(ProtocolError):
        unpacked(packed, size, MOST)


def test_a_bomb_is_not_unpacked():
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(ProtocolError):
        unpacked(BOMB, MOST, MOST)
    assert tracemalloc.get_traced_memory()[1] < 4 * MOST
    tracemalloc.stop()


def test_a_frame_that_wants_a_wide_window_is_refused():
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    # Streamed, a frame does not say its size, so its window is what it asks for.
    packed = compressor.compress(TEXT) + compressor.flush()
    with pytest.raises(ProtocolError, match="cannot be unpacked"):
        unpacked(packed, len(TEXT), MOST)
