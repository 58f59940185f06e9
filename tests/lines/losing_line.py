"""A line between a client and a queue manager that loses certain answers, or certain requests.

It stands on loopback, or in place of a dialer. Every frame is read and passed on; a frame that is
to be lost ends its connection instead, both ways, as a network does that breaks just then.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

from dray.model.callers import Credential
from dray.wire.frames import encode_frame
from dray.wire.head import Head
from dray.wire.stream import Frame, FrameStream
from tests.lines.line import ENDS_WITHIN_S as WAIT_S
from tests.lines.line import Flow, Inward, Line, Outward

__all__ = ["WAIT_S", "LosingLine"]

Kinds = dict[int, type[Head]]
"""The kinds of requests of one connection, by their ids."""


class LosingLine(Line):
    """Leads to what `dial` reaches."""

    def __init__(self, dial: Callable[[], socket.socket], name: str = "the losing line") -> None:
        """Lose nothing until told."""
        super().__init__(dial)
        self.lost = 0
        """How many frames were lost."""
        self.seen: list[Head] = []
        """The requests that came, in order."""
        self.happened = threading.Event()
        self.then: Callable[[], object] | None = None
        """Called when a frame is lost, before the connection is cut."""
        self._name = name
        self._answers: list[_Loss] = []
        self._requests: list[_Loss] = []

    def __str__(self) -> str:
        return self._name

    def lose_answer(self, kind: type[Head], *, after: int = 0) -> None:
        """Lose the answer to a request of that kind, once `after` others of it were answered."""
        self._answers.append(_Loss(kind, after))

    def lose_request(self, kind: type[Head], *, after: int = 0) -> None:
        """Lose a request of that kind, once `after` others of it have passed."""
        self._requests.append(_Loss(kind, after))

    def disarm(self) -> bool:
        """Lose nothing that was not lost yet; tells whether there was any."""
        left = len(self._answers) + len(self._requests)
        self._answers.clear()
        self._requests.clear()
        return left > 0

    def dial(self) -> socket.socket:
        """Give a client a connection that goes through here."""
        ours, theirs = socket.socketpair()
        self.lead(ours)
        return theirs

    def credential(self) -> Credential:
        """Show no token."""
        return Credential()

    def flows(self, near: socket.socket, far: socket.socket) -> tuple[Flow, Flow]:
        """Both directions of a new connection, frame by frame."""
        kinds: Kinds = {}
        return (
            _FrameFlow(
                near, far, Outward, is_lost=lambda each: self._loses_request(each, kinds), line=self
            ),
            _FrameFlow(
                far, near, Inward, is_lost=lambda each: self._loses_answer(each, kinds), line=self
            ),
        )

    def tell(self) -> None:
        """A frame is lost, and those before it came out."""
        self.lost += 1
        if self.then is not None:
            self.then()
        self.happened.set()

    def _loses_request(self, frame: Frame, kinds: Kinds) -> bool:
        kinds[frame.request_id] = type(frame.head)
        self.seen.append(frame.head)
        return _is_due(self._requests, type(frame.head))

    def _loses_answer(self, frame: Frame, kinds: Kinds) -> bool:
        return _is_due(self._answers, kinds.get(frame.request_id))


class _Loss:
    """A frame to lose."""

    def __init__(self, kind: type[Head], after: int) -> None:
        self.kind, self.after = kind, after


def _is_due(losses: list[_Loss], kind: type[Head] | None) -> bool:
    for loss in losses:
        if loss.kind is kind:
            loss.after -= 1
            if loss.after < 0:
                losses.remove(loss)
                return True
    return False


class _FrameFlow(Flow):
    """One direction of a connection, frame by frame, up to the one that is lost."""

    def __init__(
        self,
        source: socket.socket,
        target: socket.socket,
        way: int,
        *,
        is_lost: Callable[[Frame], bool],
        line: LosingLine,
    ) -> None:
        super().__init__(source, target, way)
        self._is_lost, self._line = is_lost, line

    def pieces(self) -> Iterator[memoryview]:
        """The frames that go in."""
        stream = FrameStream()
        while count := self.source.recv_into(stream.buffer()):
            for frame in stream.received(count):
                if self._is_lost(frame):
                    self.wait_until_passed()
                    self._line.tell()
                    self.cut()
                    return
                head = encode_frame(frame.head, frame.request_id, len(frame.body))
                yield memoryview(b"".join((head, frame.body)))
