"""Clients in simulated time: scripts that speak real frames over breaking connections.

A script is a generator. `yield from client.call(head)` gives the answer, or raises `Refusal` (the
manager said no) or `LinkBroken`; `yield from client.sleep(seconds)` lets time pass.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from dray.wire.frames import Failed, Hello, Welcome
from dray.wire.head import Head
from dray.wire.message_frames import Outcome, OutcomeIs
from dray.wire.stream import Frame
from tests.worlds.network import Link
from tests.worlds.simulated_daemon import Surroundings


class Reply(NamedTuple):
    """An answer, its body kept."""

    head: Head
    body: bytes


Script = Generator[float | None, Reply, None]
"""Yields seconds to sleep, or None to wait for an answer."""


class LinkBroken(Exception):  # noqa: N818 - it is an event, and caught as one
    """The connection ended before the answer came."""


class Refusal(Exception):  # noqa: N818 - it is an answer
    """The manager answered Failed."""

    def __init__(self, failed: Failed) -> None:
        """Keep the frame."""
        super().__init__(f"{failed.error}: {failed.sentence}")
        self.error = failed.error
        self.fields: dict[str, Any] = failed.fields


class SimClient:
    """One program that talks to one daemon."""

    def __init__(
        self, name: str, daemon: str, world: Surroundings, script: Callable[[SimClient], Script]
    ) -> None:
        """Begin the script at once."""
        self.name = name
        self.daemon = daemon
        self.world = world
        self.rng = world.rng
        self.manager_id = ""
        self.done = False
        self._link: Link | None = None
        self._wanted = 0
        self._request_id = 0
        self._numbers = iter(())  # type: Any
        self._run = script(self)
        world.schedule.after(0.0, self._go_on)

    # ------------------------------------------------------------------- what scripts may use

    def connect(self) -> Generator[float | None, Reply, None]:
        """Connect and say Hello, again and again until the daemon is there."""
        while True:
            daemon = self.world.daemons[self.daemon]
            if daemon.up:
                self._link = self.world.connect(self, daemon, self.world.client_faults)
                daemon.accept(self._link)
                try:
                    reply = yield from self.call(Hello("client"))
                except LinkBroken:
                    pass
                else:
                    assert isinstance(reply.head, Welcome)
                    self.manager_id = reply.head.manager_id
                    first, count = reply.head.first_number, reply.head.number_count
                    self._numbers = iter(range(first, first + count))
                    return
            yield from self.sleep(self.rng.uniform(0.02, 0.2))

    def call(self, head: Head, body: bytes = b"") -> Generator[float | None, Reply, Reply]:
        """Send a request and wait for its answer."""
        self._wanted = self.say(head, body)
        reply = yield None
        if isinstance(reply.head, Failed):
            raise Refusal(reply.head)
        return reply

    def say(self, head: Head, body: bytes = b"") -> int:
        """Send a frame and wait for nothing."""
        if self._link is None or not self._link.open:
            raise LinkBroken
        self._request_id += 1
        self._link.send(self, head, self._request_id, body)
        return self._request_id

    def sleep(self, seconds: float) -> Generator[float | None, Reply, None]:
        """Let time pass."""
        yield seconds

    def number(self) -> int:
        """A number of this manager that nobody had before."""
        found: int = next(self._numbers)
        return found

    def vanish(self) -> None:
        """Cut the connection without a word, as a killed program does."""
        if self._link is not None:
            self._link.cut(dead=self)
            self._link = None
        raise LinkBroken

    def outcome(self, transaction_id: str) -> Generator[float | None, Reply, bool]:
        """Ask what became of a transaction until it is known; tell whether it committed."""
        while True:
            reply = yield from self.call(Outcome(transaction_id))
            assert isinstance(reply.head, OutcomeIs)
            if reply.head.status in ("committed", "aborted"):
                return reply.head.status == "committed"
            yield from self.sleep(0.1)

    # ------------------------------------------------------------------------------ the driver

    def arrived(self, link: Link, frame: Frame) -> None:
        """Hand an answer to the script."""
        head, request_id, body = frame
        if link is self._link and request_id == self._wanted:
            self._wanted = 0
            self._resume(Reply(head, bytes(body)))

    def broken(self, link: Link) -> None:
        """Let the script know, if it waits."""
        if link is self._link:
            self._link = None
            if self._wanted:
                self._wanted = 0
                self.world.interrupted = True
                self._resume(LinkBroken())

    def _resume(self, value: Reply | LinkBroken | None) -> None:
        try:
            if isinstance(value, LinkBroken):
                pause = self._run.throw(value)
            elif value is None:
                pause = next(self._run)
            else:
                pause = self._run.send(value)
        except StopIteration:
            self.done = True
            return
        if pause is not None:
            self.world.schedule.after(pause, self._go_on)

    def _go_on(self) -> None:
        self._resume(None)
