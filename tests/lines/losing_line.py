"""A line between a client and a queue manager that loses certain answers, or certain requests.

It stands on loopback, or in place of what dials. Every frame is read and passed on; a frame that is
to be lost ends its connection instead, both ways, as a network does that breaks just then.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from dray.model.callers import Credential
from dray.wire.frames import encode_frame
from dray.wire.stream import FrameStream

WAIT_S = 60.0


class LosingLine:
    """Leads to what `dial` reaches; `port` is where it listens, if `listen` was called."""

    def __init__(self, dial, name="the losing line") -> None:
        self.port = 0
        self.lost = 0
        """How many frames were lost."""
        self.seen = []
        """The requests that came, in order."""
        self.happened = threading.Event()
        self.refusing = False
        """Whether new connections are ended at once."""
        self.then = None
        """Called when a frame is lost, before the connection is cut."""
        self._dial, self._name = dial, name
        self._answers, self._requests = [], []
        self._threads = []
        self._sockets = []
        self._listening = None

    def __str__(self) -> str:
        return self._name

    def lose_answer(self, kind, *, after=0):
        """Lose the answer to a request of that kind, once `after` others of it were answered."""
        self._answers.append([kind, after])

    def lose_request(self, kind, *, after=0):
        """Lose a request of that kind, once `after` others of it have passed."""
        self._requests.append([kind, after])

    def disarm(self):
        """Lose nothing that was not lost yet; tells whether there was any."""
        left = len(self._answers) + len(self._requests)
        self._answers.clear()
        self._requests.clear()
        return left > 0

    def dial(self):
        """Give a client a connection that goes through here."""
        ours, theirs = socket.socketpair()
        self._lead(ours)
        return theirs

    def credential(self):
        """Show no token."""
        return Credential()

    def listen(self):
        """Accept clients on a loopback port."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._begin(self._accept)
        return self

    @property
    def url(self):
        return f"dray://127.0.0.1:{self.port}"

    def refuse(self):
        """Let nobody connect any more."""
        self.refusing = True

    def cut(self):
        """End all connections."""
        for each in list(self._sockets):
            _shut(each)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._listening is not None:
            _shut(self._listening)
        self.cut()
        for thread in self._threads:
            thread.join(WAIT_S)
        for each in (*self._sockets, *([self._listening] if self._listening else [])):
            each.close()

    def _begin(self, run, *arguments):
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self._lead(self._listening.accept()[0])

    def _lead(self, near):
        self._sockets.append(near)
        if self.refusing:
            _shut(near)
            return
        try:
            far = self._dial()
        except Exception:  # noqa: BLE001 - nobody is there just now, which the client is shown
            _shut(near)
            return
        self._sockets.append(far)
        kinds = {}
        self._begin(self._pass, near, far, lambda frame: self._asked(frame, kinds))
        self._begin(self._pass, far, near, lambda frame: self._answered(frame, kinds))

    def _pass(self, source, target, is_lost):
        stream = FrameStream()
        with contextlib.suppress(OSError):
            while count := source.recv_into(stream.buffer()):
                for frame in stream.received(count):
                    if is_lost(frame):
                        self._lose()
                        break
                    head = encode_frame(frame.head, frame.request_id, len(frame.body))
                    target.sendall(head)
                    target.sendall(frame.body)
                else:
                    continue
                break
        _shut(source)
        _shut(target)

    def _lose(self):
        self.lost += 1
        if self.then is not None:
            self.then()
        self.happened.set()

    def _asked(self, frame, kinds):
        kinds[frame.request_id] = type(frame.head)
        self.seen.append(frame.head)
        return _due(self._requests, type(frame.head))

    def _answered(self, frame, kinds):
        return _due(self._answers, kinds.get(frame.request_id))


def _due(losses, kind):
    for loss in losses:
        if loss[0] is kind:
            loss[1] -= 1
            if loss[1] < 0:
                losses.remove(loss)
                return True
    return False


def _shut(sock):
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
