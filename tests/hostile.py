"""Hostile callers of seven kinds at one queue manager, until they leave.

silent         connects and says nothing
dribbler       shakes hands, and says a frame one byte a second
babbler        shakes hands, and says bytes that are no frame
half shaken    begins a TLS handshake, and no more
half a body    announces a message of 300 KB, and sends half of it
seeker         waits for a message by a correlation id that nobody sends
lender         lends a file without its frame, and leaves

All but the lenders come over TCP, where they have shares, and over TLS if it is `trusted`; lenders
need a Unix socket.
"""

from __future__ import annotations

import os
import ssl
import threading
from contextlib import ExitStack, suppress

from dray.wire import file_frames, frames, message_frames, selections
from tests.unit.daemon.raw_client import RawClient, connected

BODY = 300_000


class Hostile:
    """Callers of seven kinds at one daemon, until they leave."""

    def __init__(
        self, tcp: str, unix: str, lent: int, trusted: ssl.SSLContext | None = None
    ) -> None:
        self.tcp, self.unix, self.lent, self.trusted = tcp, unix, lent, trusted
        self.stack = ExitStack()
        self.over = threading.Event()
        self.dribblers: list[RawClient] = []
        self.kinds = [
            self.silent, self.dribbler, self.babbler, self.half_shaken, self.half_a_body,
            self.seeker, self.lender,
        ]  # fmt: skip

    def come(self, count: int) -> None:
        for number in range(count):
            self.kinds[number % len(self.kinds)](number)
        self.thread = threading.Thread(target=self._dribble)
        self.thread.start()

    def leave(self) -> None:
        self.over.set()
        self.thread.join(60)
        self.stack.close()

    def plain(self) -> RawClient:
        return self.stack.enter_context(connected(self.tcp.replace("drays", "dray")))

    def caller(self) -> RawClient:
        """One that has shaken hands."""
        if self.trusted is None:
            return self.plain()
        sock = self.trusted.wrap_socket(self.plain().socket, server_hostname="localhost")
        return self.stack.enter_context(RawClient(sock))

    def silent(self, _number: int) -> None:
        self.plain()

    def dribbler(self, _number: int) -> None:
        self.dribblers.append(self.caller())

    def babbler(self, number: int) -> None:
        self.caller().socket.sendall(os.urandom(64 + number))

    def half_shaken(self, _number: int) -> None:
        self.plain().socket.sendall(b"\x16\x03\x01\x02\x00\x01")

    def half_a_body(self, _number: int) -> None:
        client = self.caller()
        client.ask(frames.Hello("client"))
        said = frames.encode_frame(message_frames.Send(16, 0, [BODY], [0]), 2, BODY) + bytes(
            BODY // 2
        )
        client.socket.sendall(said)

    def seeker(self, number: int) -> None:
        client = self.caller()
        client.ask(frames.Hello("client"))
        select = selections.SelectByCorrelation(f"nobody sends {number}")
        client.say(message_frames.Receive(16, 0, 600.0, select=select), 2)

    def lender(self, _number: int) -> None:
        with connected(self.unix) as client:
            client.ask(frames.Hello("client"))
            client.lend(file_frames.SendFile(16, 0, 100, 0, 0), self.lent, cut=1)

    def _dribble(self) -> None:
        said = frames.encode_frame(frames.Hello("client", name="x" * 2_000))
        for byte in said:
            for client in self.dribblers:
                with suppress(OSError):
                    client.socket.sendall(bytes([byte]))
            if self.over.wait(1.0):
                return
