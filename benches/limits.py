"""What this machine can do by itself: the limits beside which Dray's figures stand."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from dray.large.digests import DIGESTS

PIECE_BYTES = 4 << 20
SMALL_WRITE_BYTES = 4096
SMALL_WRITES = 400


def make_payload(path: Path, size: int) -> Path:
    """A file of `size` random bytes, which nothing can compress; now in the page cache."""
    with path.open("wb") as file:
        for start in range(0, size, PIECE_BYTES):
            file.write(os.urandom(min(PIECE_BYTES, size - start)))
        file.flush()
        os.fsync(file.fileno())
    return path


def write_fresh_mb_s(folder: Path, size: int) -> float:
    """Rate of write and fdatasync into a file that did not exist: the disk allocates as it goes."""
    path = folder / "fresh"
    rate = _write_mb_s(path, size, os.O_CREAT | os.O_TRUNC)
    path.unlink()
    return rate


def write_again_mb_s(folder: Path, size: int) -> float:
    """Rate of write and fdatasync over a file already written: nothing to allocate."""
    path = folder / "again"
    _write_mb_s(path, size, os.O_CREAT | os.O_TRUNC)
    rate = _write_mb_s(path, size, 0)
    path.unlink()
    return rate


def copy_mb_s(source: Path, folder: Path, *, sync: bool = False) -> float:
    """Rate of a plain copy into a new file, as `cp` does it; with `sync`, onto the disk."""
    target = folder / "copy"
    began = time.perf_counter()
    shutil.copyfile(source, target)
    if sync:
        with target.open("rb") as file:
            os.fsync(file.fileno())
    rate = source.stat().st_size / (time.perf_counter() - began) / 1e6
    target.unlink()
    return rate


def digest_mb_s(kind: str, size: int) -> float:
    """Rate at which one core takes a digest of what lies in memory."""
    digest, piece = DIGESTS[kind](), memoryview(os.urandom(PIECE_BYTES))
    began = time.perf_counter()
    for start in range(0, size, PIECE_BYTES):
        digest.update(piece[: size - start])
    return size / (time.perf_counter() - began) / 1e6


def syncs_per_s(folder: Path) -> float:
    """How many small writes, each with its own fdatasync, go into a file in a second."""
    path = folder / "small"
    piece = os.urandom(SMALL_WRITE_BYTES)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    os.posix_fallocate(descriptor, 0, SMALL_WRITES * SMALL_WRITE_BYTES)
    began = time.perf_counter()
    for index in range(SMALL_WRITES):
        os.pwrite(descriptor, piece, index * SMALL_WRITE_BYTES)
        os.fdatasync(descriptor)
    rate = SMALL_WRITES / (time.perf_counter() - began)
    os.close(descriptor)
    path.unlink()
    return rate


def _write_mb_s(path: Path, size: int, flags: int) -> float:
    piece = memoryview(os.urandom(PIECE_BYTES))
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    began = time.perf_counter()
    done = 0
    while done < size:
        done += os.write(descriptor, piece[: size - done])
    os.fdatasync(descriptor)
    rate = size / (time.perf_counter() - began) / 1e6
    os.close(descriptor)
    return rate
