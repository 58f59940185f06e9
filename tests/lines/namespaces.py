"""Two machines that are none: network namespaces with a bad cable between them.

Each namespace has its own addresses, ports and TCP; what runs in one reaches the other over the
cable (`tun_relay`) and nothing else. Unix sockets are files, and reached from everywhere. Needs
root, `ip` (iproute2) and /dev/net/tun; `why_not` says what of it is missing.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dray.errors import DrayError
from tests.lines.cable import Faults
from tests.lines.tun_relay import Asked

DEVICE: Final = "dray0"
_ETHERNET_BYTES: Final = 1500
_QUEUED_PACKETS: Final = 10_000
"""What the device holds while the relay is not let in by a busy machine: losses are the cable's."""
_READY_WITHIN_S: Final = 60.0
_ENDS_WITHIN_S: Final = 60.0


class Place(NamedTuple):
    """A network namespace, and the address of its end of the cable."""

    name: str
    address: str

    def command(self, command: Sequence[str]) -> list[str]:
        """The command that runs another one there."""
        return ["ip", "netns", "exec", self.name, *command]


class Cable:
    """The process that carries packets between two places."""

    def __init__(self, places: tuple[Place, Place], faults: Faults, seed: int) -> None:
        """Start it; raises `DrayError` with its last words if it does not get ready."""
        near, far = places
        asked = Asked((near.name, far.name), DEVICE, seed, faults)
        self.counts: list[dict[str, int]] = []
        """What became of packets, each way; known when it has ended."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.lines.tun_relay", msgspec.json.encode(asked).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # ^C at the terminal is for who uses it
        )
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _READY_WITHIN_S)
        if not ready or self._process.stdout.readline() != b"ready\n":
            self._process.kill()
            said = self._process.communicate()[1].decode().strip().splitlines() or ["nothing"]
            raise DrayError(f"there is no cable between namespaces; it said: {said[-1]}")

    def cut(self) -> None:
        """Lose what is on it and what comes, both ways; nobody is told."""
        self._say(b"cut\n")

    def mend(self) -> None:
        """Carry again."""
        self._say(b"mend\n")

    def end(self) -> None:
        """End it, and learn what became of packets."""
        out, err = self._process.communicate(timeout=_ENDS_WITHIN_S)
        if self._process.returncode:
            raise DrayError(f"the cable between namespaces broke: {err.decode().strip()}")
        self.counts = msgspec.json.decode(out)

    def _say(self, word: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word)
        self._process.stdin.flush()


@cache
def why_not() -> str:
    """What this machine lacks for namespaces with a cable; empty if nothing."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "network namespaces need root and iproute2"
    if not Path("/dev/net/tun").exists():
        return "this machine has no /dev/net/tun"
    try:
        with cabled(Faults()):
            return ""
    except (OSError, subprocess.CalledProcessError, DrayError) as error:
        said = getattr(error, "stderr", b"") or b""
        return f"network namespaces cannot be made here: {error} {said.decode().strip()}".strip()


@contextmanager
def cabled(
    faults: Faults, *, seed: int = 0, packet_bytes: int = _ETHERNET_BYTES
) -> Iterator[tuple[Place, Place, Cable]]:
    """Two namespaces and the cable between them; all of it is gone with the block.

    `packet_bytes` is the largest packet (MTU). Raises `DrayError` or what `ip` has raised.
    """
    places = (
        Place(f"dray-{os.getpid()}-a", "10.77.0.1"),
        Place(f"dray-{os.getpid()}-b", "10.77.0.2"),
    )
    made: list[Place] = []
    cable: Cable | None = None
    try:
        for place in places:
            _ip("netns", "add", place.name)
            made.append(place)
        cable = Cable(places, faults, seed)
        for place in places:
            _plug_in(place, packet_bytes)
        yield *places, cable
    finally:
        try:
            if cable is not None:
                cable.end()
        finally:
            for place in made:
                _ip("netns", "delete", place.name)


def _plug_in(place: Place, packet_bytes: int) -> None:
    _ip("-n", place.name, "address", "add", f"{place.address}/24", "dev", DEVICE)
    _ip("-n", place.name, "link", "set", "lo", "up")
    size, queued = str(packet_bytes), str(_QUEUED_PACKETS)
    _ip("-n", place.name, "link", "set", DEVICE, "mtu", size, "txqueuelen", queued, "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
