"""As much of STOMP 1.2 as a queue needs: Artemis has no client of its own for Python.

One thread, one socket and no parser in between, so that the client costs Artemis as little as can
be.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator, Sequence

_QUEUE = "destination:bench\n"
_READ_BYTES = 1 << 18


class Stomp:
    """A connection to one queue of a broker."""

    def __init__(self, port: int) -> None:
        """Connect by loopback."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._came = bytearray()
        self._messages: deque[tuple[bytes, str]] = deque()
        self._last = 0
        self._subscribed = False
        self._say(_frame("CONNECT", "accept-version:1.2\nhost:bench\nheart-beat:0,0\n"))
        self._await("CONNECTED", "")

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send persistent messages, several in a transaction; return once they are confirmed."""
        receipt, lone = self._receipt(), len(bodies) == 1
        last = f"receipt:{receipt}\n"
        within = last if lone else f"transaction:{receipt}\n"
        head = f"{_QUEUE}destination-type:ANYCAST\npersistent:true\n{within}"
        said = [
            _frame("SEND", f"{head}content-length:{len(body)}\n", bytes(body)) for body in bodies
        ]
        if not lone:
            said.insert(0, _frame("BEGIN", within))
            said.append(_frame("COMMIT", within + last))
        self._say(b"".join(said))
        self._await("RECEIPT", receipt)

    def take(self, most: int) -> list[bytes]:
        """Take at least one message and at most so many, in a transaction."""
        if not self._subscribed:
            self._subscribed = True
            wish = "subscription-type:ANYCAST\nid:0\nack:client\nconsumer-window-size:-1\n"
            self._say(_frame("SUBSCRIBE", _QUEUE + wish))
        taken = [self._next() for _ in range(most)]
        receipt = self._receipt()
        within, last = f"transaction:{receipt}\n", taken[-1][1]
        self._say(
            _frame("BEGIN", within)
            + _frame("ACK", f"id:{last}\n{within}")
            + _frame("COMMIT", f"{within}receipt:{receipt}\n")
        )
        self._await("RECEIPT", receipt)
        return [body for body, _ in taken]

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _some(self, most: int) -> Iterator[tuple[bytes, str]]:
        for _ in range(most):
            yield self._next()

    def _next(self) -> tuple[bytes, str]:
        while not self._messages:
            self._read()
        return self._messages.popleft()

    def _receipt(self) -> str:
        self._last += 1
        return str(self._last)

    def _say(self, frames: bytes) -> None:
        self._socket.sendall(frames)

    def _await(self, command: str, receipt: str) -> None:
        while True:
            name, headers, _ = self._read()
            if name == command and headers.get("receipt-id", "") == receipt:
                return

    def _read(self) -> tuple[str, dict[str, str], bytes]:
        """Give the next frame; a message is kept too."""
        del self._came[: len(self._came) - len(self._came.lstrip(b"\n"))]
        while (stop := self._came.find(b"\n\n")) < 0:
            self._more()
            del self._came[: len(self._came) - len(self._came.lstrip(b"\n"))]
        name, *lines = self._came[:stop].decode().split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        start = stop + 2
        if "content-length" in headers:
            end = start + int(headers["content-length"])
            while len(self._came) <= end:
                self._more()
        else:
            while (end := self._came.find(b"\0", start)) < 0:
                self._more()
        body = bytes(self._came[start:end])
        del self._came[: end + 1]
        if name == "ERROR":
            raise OSError(f"the broker refused: {headers.get('message', '')} {body!r}")
        if name == "MESSAGE":
            self._messages.append((body, headers["ack"]))
        return name, headers, body

    def _more(self) -> None:
        came = self._socket.recv(_READ_BYTES)
        if not came:
            raise OSError("the broker has hung up")
        self._came += came


def _frame(command: str, headers: str, body: bytes = b"") -> bytes:
    return f"{command}\n{headers}\n".encode() + body + b"\0"
