"""The cable between two network namespaces, as a process with a TUN device in each.

    python -m tests.lines.tun_relay '{"ends": [NAMESPACE, NAMESPACE], "device": "dray0", ...}'

The kernel's own TCP in either namespace speaks to the other over it, and gets to feel all that
`cable` can do. Says `ready` when both devices are there, hears `cut` and `mend` line by line, and
ends with its input; then it prints what became of the packets, as JSON. Needs the right to make
TUN devices, so it is started by `namespaces` only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import random
import select
import struct
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from tests.lines.cable import Faults, Lane

_NAMESPACES: Final = Path("/run/netns")
_TUN: Final = "/dev/net/tun"
_CLONE_NEWNET: Final = 0x40000000
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_PACKET_BYTES_MAX: Final = 65_535
_PACKETS_PER_TURN: Final = 256
_COMMAND_BYTES: Final = 4096


class Asked(msgspec.Struct, frozen=True):
    """What a relay is started with."""

    ends: tuple[str, str]
    device: str
    seed: int
    faults: Faults


class Relay:
    """Carries packets both ways until its input ends."""

    def __init__(self, asked: Asked, commands: int) -> None:
        """Make the devices; `commands` is a descriptor from which lines are read."""
        rng = random.Random(asked.seed)
        self._commands = commands
        self._ends = [tun_in(name, asked.device) for name in asked.ends]
        self.lanes = [Lane(asked.faults, rng) for _ in self._ends]
        self._poll = select.epoll()
        for descriptor in (*self._ends, commands):
            self._poll.register(descriptor, select.EPOLLIN)

    def run(self) -> None:
        """Carry, until there is no more to be heard."""
        while True:
            now = time.monotonic()
            for lane, out in zip(self.lanes, reversed(self._ends), strict=True):
                self._let_out(lane, out, now)
            for descriptor, _ in self._poll.poll(self._patience(now)):
                if descriptor != self._commands:
                    self._take_in(descriptor)
                elif not self._heard():
                    return

    def _patience(self, now: float) -> float:
        times = [at for lane in self.lanes if (at := lane.deadline()) is not None]
        return max(0.0, min(times) - now) if times else -1

    def _let_out(self, lane: Lane, out: int, now: float) -> None:
        for packet in lane.due(now):
            try:
                os.write(out, packet)
            except OSError as error:
                # The device is down, or its namespace has no room: one packet more is lost.
                lane.counts[f"refused: {errno.errorcode.get(error.errno or 0, 'unknown')}"] += 1

    def _take_in(self, descriptor: int) -> None:
        lane = self.lanes[self._ends.index(descriptor)]
        for _ in range(_PACKETS_PER_TURN):
            try:
                packet = os.read(descriptor, _PACKET_BYTES_MAX)
            except BlockingIOError:
                return
            lane.take(packet, time.monotonic())

    def _heard(self) -> bool:
        said = os.read(self._commands, _COMMAND_BYTES)
        for word in said.split():
            for lane in self.lanes:
                {b"cut": lane.cut, b"mend": lane.mend}[word]()
        return bool(said)


def tun_in(namespace: str, device: str) -> int:
    """A TUN device in a network namespace, not blocking; it goes with its descriptor.

    This thread is in that namespace from then on. Raises OSError.
    """
    kernel = ctypes.CDLL(None, use_errno=True)
    where = os.open(_NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if kernel.setns(where, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), namespace)
    finally:
        os.close(where)
    descriptor = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    request = struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI)
    try:
        fcntl.ioctl(descriptor, _TUNSETIFF, request)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def main() -> None:
    """Be the relay that was asked for."""
    relay = Relay(msgspec.json.decode(sys.argv[1], type=Asked), sys.stdin.fileno())
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    relay.run()
    counts = [dict(lane.counts) for lane in relay.lanes]
    sys.stdout.write(msgspec.json.encode(counts).decode() + "\n")


if __name__ == "__main__":
    main()
