"""A seeded network: links that delay, lose, repeat, reorder and break, carrying encoded frames.

Everything happens on one `Schedule`, so a world is a single thread of simulated time. The unit of a
fault is the frame, as in a world of byte streams a loss inside a frame is a broken connection; but
each frame crosses as bytes, in pieces cut at random, through a `FrameStream` at the other end.

Between managers the link may be worse than TCP: frames of the delivery protocol may get lost, come
twice or overtake each other, because exactly-once delivery must not lean on the transport. Frames
that open a connection, and those of clients, are delivered in order or the link breaks, since there
the promise is the transport's.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from math import log
from typing import NamedTuple, Protocol

from dray.wire.frames import encode_frame
from dray.wire.head import Head
from dray.wire.peer_frames import (
    Ahead,
    AheadDropped,
    AheadKept,
    Data,
    OpenStream,
    Passed,
    StreamRefused,
    StreamState,
)
from dray.wire.stream import READ_BYTES, Frame, FrameStream

EXPENDABLE = frozenset[type](
    {Ahead, AheadDropped, AheadKept, Data, Passed, OpenStream, StreamRefused, StreamState}
)
"""Frames that a line may lose, repeat and let overtake each other."""
STALL, OVERTAKEN = 100, 10
"""How many times as long as others a frame takes that is stalled, or overtaken."""
_IN_PIECES, _CUTS = 0.2, 2
"""Share of frames that come in pieces, and how often those are cut."""
_ALL_ARRIVES = 0.5


class Faults(NamedTuple):
    """Chances per frame, between 0 and 1, and the mean delay. A stall is a hundred delays."""

    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0
    disconnection: float = 0.0
    stall: float = 0.0
    delay_s: float = 0.002


NO_FAULTS = Faults()


def chance_of(rng: random.Random, probability: float) -> bool:
    """Whether something happens; draws nothing if it cannot."""
    return probability > 0 and rng.random() < probability


class Schedule:
    """Simulated time: what is due next, and a digest of all that happened."""

    def __init__(self, start: float) -> None:
        """Begin at `start` seconds since the epoch."""
        self.now = start
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._history = hashlib.sha256()
        self.struck = Counter[str]()
        """How often each trouble struck."""
        self.memory = bytearray(READ_BYTES)
        """Where all links read."""

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do something later; what is due at the same time happens in the order of these calls."""
        self._count += 1
        heappush(self._due, (self.now + delay_s, self._count, action))

    def step(self) -> bool:
        """Do what is due next; false if nothing is."""
        if not self._due:
            return False
        self.now, _, action = heappop(self._due)
        action()
        return True

    def happened(self, *what: object) -> None:
        """Write into the history from which the digest is made."""
        self._history.update(f"{self.now:.6f} {what!r}\n".encode())

    def came(self, to: int, data: bytes) -> None:
        """The same of what came to one end of a link: to which, and every byte."""
        self._history.update(b"%.6f %d %b" % (self.now, to, data))

    def digest(self) -> str:
        """The history of this world in 16 digits: equal for equal worlds."""
        return self._history.hexdigest()[:16]


class Endpoint(Protocol):
    """Either end of a link."""

    def arrived(self, link: Link, frame: Frame) -> None:
        """Take a whole frame; its body is valid during this call only."""
        ...

    def broken(self, link: Link) -> None:
        """The link is gone."""
        ...


class Link:
    """One connection; ends 0 (who dialled) and 1."""

    def __init__(
        self,
        ends: tuple[Endpoint, Endpoint],
        schedule: Schedule,
        rng: random.Random,
        faults: Faults,
        *,
        expendable: frozenset[type] = EXPENDABLE,
    ) -> None:
        """Connect two endpoints."""
        self._expendable = expendable
        self.ends = ends
        self.open = True
        self._deaf = [False, False]
        self.faults = faults
        self._schedule = schedule
        self._rng = rng
        # What is read is taken out at once, so that all links of a world may share the memory.
        self._streams = (FrameStream(schedule.memory), FrameStream(schedule.memory))
        self._latest = [0.0, 0.0]
        self._dams: list[list[bytes] | None] = [None, None]

    def dam(self, to: int) -> None:
        """Hold back what comes to one end, as a partition does; the sender notices nothing."""
        if self._dams[to] is None:
            self._dams[to] = []

    def open_dams(self) -> None:
        """Let everything through that was held back, as the transport sends it again."""
        for to, held in enumerate(self._dams):
            self._dams[to] = None
            for data in held or ():
                self._arrive(to, data)

    def send(self, sender: Endpoint, head: Head, request_id: int = 0, body: bytes = b"") -> None:
        """Put a frame on its way to the other end."""
        if not self.open:
            return
        to = 1 if sender is self.ends[0] else 0
        data = encode_frame(head, request_id, len(body)) + body
        rng = self._rng
        loss, repetition, reordering, disconnection, _, _ = self.faults
        if disconnection and rng.random() < disconnection:
            # Not at once: this frame, and some after it, may or may not get through.
            self._schedule.after(self._delay() * rng.choice((0, 1, OVERTAKEN)), self.cut)
            self._schedule.struck["disconnection"] += 1
        if type(head) not in self._expendable:
            self._carry(to, data, overtaking=False)
            return
        struck = self._schedule.struck
        if chance_of(rng, loss):
            struck["loss"] += 1
            return
        overtaking = chance_of(rng, reordering)
        if overtaking:
            struck["reordering"] += 1
        self._carry(to, data, overtaking=overtaking)
        if chance_of(rng, repetition):
            struck["repetition"] += 1
            self._carry(to, data, overtaking=True)

    def cut(self, dead: Endpoint | None = None) -> None:
        """Break the link; nothing more can be sent. Each end learns of it a little later.

        What is under way still arrives at an end that has not learned of it, as it does in reality
        when the sender dies. An end that is itself `dead` hears nothing any more.
        """
        for to, end in enumerate(self.ends):
            if end is dead:
                self._deaf[to] = True
            elif self.open:
                late = self._rng.random() < _ALL_ARRIVES
                at = max(self._latest[to], self._schedule.now) if late else self._schedule.now
                delay_s = at - self._schedule.now + self._delay()
                self._schedule.after(delay_s, partial(self.learn, to))
        self.open = False

    def learn(self, to: int) -> None:
        """Tell one end, unless it is dead, that the link is gone; from now on it hears nothing."""
        if not self._deaf[to]:
            self._deaf[to] = True
            self.ends[to].broken(self)

    def _carry(self, to: int, data: bytes, *, overtaking: bool) -> None:
        schedule, stall = self._schedule, self.faults.stall
        stalled = stall and self._rng.random() < stall
        if stalled:
            schedule.struck["stall"] += 1
        delay_s = self._delay() * (STALL if stalled else OVERTAKEN if overtaking else 1)
        now = schedule.now
        at = now + delay_s
        if not overtaking:
            at = self._latest[to] = max(at, self._latest[to])
        schedule.after(at - now, partial(self._arrive, to, data))

    def _arrive(self, to: int, data: bytes) -> None:
        if self._deaf[to]:
            return
        held = self._dams[to]
        if held is not None:
            held.append(data)
            return
        self._schedule.came(to, data)
        if self._rng.random() >= _IN_PIECES:
            self._read(to, data)
            return
        start = 0
        for end in (*sorted(self._rng.randrange(len(data)) for _ in range(_CUTS)), len(data)):
            self._read(to, data[start:end])
            start = end

    def _read(self, to: int, piece: bytes) -> None:
        """Let one end read what came, as much at a time as it has room for."""
        stream, here, deaf = self._streams[to], self.ends[to], self._deaf
        while piece and not deaf[to]:
            room, count = stream.buffer(), len(piece)
            if count <= len(room):
                room[:count] = piece
                piece = b""
            else:
                count = len(room)
                room[:] = piece[:count]
                piece = piece[count:]
            for frame in stream.received(count):
                here.arrived(self, frame)

    def _delay(self) -> float:
        # What `expovariate` gives for one draw, in fewer steps.
        return -log(1.0 - self._rng.random()) / (1 / self.faults.delay_s)
