"""Being woken in time: a short slice of the processor for threads that mostly wait.

Linux gives each thread a slice, some milliseconds, before it looks whom else to run. On a machine
whose cores are busy a thread that waited for the disk or a socket gets its turn only when another
one's slice is over: an fdatasync of 0.1 ms takes 4. A thread that asks for a short slice is let in
when it wakes. It gets no more of the processor than before, only sooner and for less long at a
time, so no right is needed (`sched_setattr`, Linux 6.12 and later; older kernels take no notice).
"""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import struct
import sys
from typing import Final, NamedTuple

from dray.daemon.limits import SLICE_S

_log = logging.getLogger(__name__)
_CALLS: Final = {"x86_64": (314, 315), "aarch64": (274, 275)}
"""Numbers of `sched_setattr` and `sched_getattr`, for which Python has no functions."""
_LAYOUT: Final = struct.Struct("<IIQiIQQQ")
_SCHED_OTHER: Final = 0


def request_short_time_slice() -> bool:
    """Ask for the calling thread and those it starts; say whether the system agreed."""
    attributes = read_attributes()
    # Somebody chose another policy for this process, and knew why.
    if attributes is None or attributes.policy != _SCHED_OTHER:
        return False
    wanted = attributes._replace(runtime=int(SLICE_S * 1e9))
    image = ctypes.create_string_buffer(_LAYOUT.pack(*wanted), _LAYOUT.size)
    if _system(_CALLS[platform.machine()][0], 0, image, 0):
        return _refused()
    return True


class Attributes(NamedTuple):
    """The scheduler's attributes of a thread; `runtime` is its slice in nanoseconds."""

    size: int
    policy: int
    flags: int
    nice: int
    priority: int
    runtime: int
    deadline: int
    period: int


def read_attributes(thread: int = 0) -> Attributes | None:
    """The attributes of a thread by its native id, or of this one; None if Linux gives none."""
    calls = _CALLS.get(platform.machine())
    if sys.platform != "linux" or calls is None:
        return None
    image = ctypes.create_string_buffer(_LAYOUT.size)
    if _system(calls[1], thread, image, _LAYOUT.size, 0):
        _refused()
        return None
    return Attributes(*_LAYOUT.unpack(image.raw))


def _system(number: int, *arguments: object) -> int:
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, *arguments)
    return result


def _refused() -> bool:
    _log.debug("no short slices of the processor: %s", os.strerror(ctypes.get_errno()))
    return False
