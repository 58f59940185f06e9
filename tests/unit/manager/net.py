"""Any number of managers at one table; `deliver` carries what they say to each other."""

from __future__ import annotations

from pathlib import Path

from dray.manager.events import (
    Answer,
    CloseSession,
    Dial,
    HangUp,
    LinkDown,
    LinkFrame,
    LinkSend,
    LinkUp,
    Peer,
    Request,
    SessionClosed,
    SessionOpened,
)
from dray.model.callers import OWNER
from dray.wire.head import Head
from dray.wire.stream import Frame

from .conftest import ManagerDriver


def address(host: str, queue: str) -> str:
    return f"dray://{host}:7340/{queue}"


def peer(host: str) -> Peer:
    return Peer(host, 7340)


class Net:
    """Managers by host; `routes` gives for each the hosts it reaches by way of others."""

    def __init__(
        self,
        path: Path,
        hosts: str,
        routes: dict[str, dict[str, str]] | None = None,
        ids: dict[str, str] | None = None,
    ) -> None:
        self.drivers = {
            host: ManagerDriver(
                path / host,
                (ids or {}).get(host, host),
                routes={peer(g): peer(v) for g, v in (routes or {}).get(host, {}).items()},
            )
            for host in hosts
        }
        self.lines: dict[int, tuple[str, str]] = {}
        self.next_line = 1000
        self.blocked: set[tuple[str, str]] = set()
        self.said: list[tuple[str, str, Head]] = []

    def __getitem__(self, host: str) -> ManagerDriver:
        return self.drivers[host]

    def deliver(self) -> None:
        """Carry frames until nothing is said any more."""
        while sum(self._carry(host) for host in self.drivers):
            pass

    def step(self) -> bool:
        """Carry one frame; tells whether there was one."""
        return any(self._carry(host, upto=1) for host in self.drivers)

    def block(self, source: str, destination: str) -> None:
        """Cut the line and let no other be made."""
        self.blocked.add((source, destination))
        self.cut(source, destination)

    def unblock(self, source: str, destination: str) -> None:
        self.blocked.discard((source, destination))

    def cut(self, source: str, destination: str) -> None:
        line = self._line(source, destination)
        if line is not None:
            del self.lines[line]
            self.drivers[source].turn(LinkDown(peer(destination), "cut"))
            self.drivers[destination].turn(SessionClosed(line))

    def crash(self, host: str) -> None:
        for source, destination in list(self.lines.values()):
            if host in (source, destination):
                self.cut(source, destination)
        self.drivers[host].effects.clear()
        self.drivers[host].crash()

    def advance(self, seconds: float) -> None:
        for driver in self.drivers.values():
            driver.advance(seconds)
        self.deliver()

    def _line(self, source: str, destination: str) -> int | None:
        ends = (source, destination)
        return next((line for line, each in self.lines.items() if each == ends), None)

    def _carry(self, host: str, upto: int = 10_000) -> int:
        driver = self.drivers[host]
        carried = 0
        # One by one: whoever stops us in the middle of it takes the rest out of nobody's hand.
        for _ in range(len(driver.effects)):
            if not driver.effects or carried >= upto:
                break
            effect = driver.effects.pop(0)
            if isinstance(effect, Dial):
                self._dial(host, effect.peer)
            elif isinstance(effect, HangUp):
                self._hang_up(host, effect.peer.host)
            elif isinstance(effect, LinkSend):
                body = driver.body_of(effect)
                self._tell(host, effect.peer.host, effect.head, body)
            elif isinstance(effect, Answer) and effect.session in self.lines:
                source, _ = self.lines[effect.session]
                self.said.append((host, source, effect.head))
                frame = Frame(effect.head, 0, memoryview(driver.body_of(effect)))
                self.drivers[source].turn(LinkFrame(peer(host), frame))
            elif isinstance(effect, CloseSession) and effect.session in self.lines:
                self.cut(*self.lines[effect.session])
            else:
                continue
            carried += 1
        return carried

    def _dial(self, source: str, goal: Peer) -> None:
        if (source, goal.host) in self.blocked:
            self.drivers[source].turn(LinkDown(goal, "unreachable"))
            return
        self.next_line += 1
        self.lines[self.next_line] = (source, goal.host)
        self.drivers[goal.host].turn(SessionOpened(self.next_line, OWNER))
        self.drivers[source].turn(LinkUp(goal))
        self._tell(source, goal.host, self.drivers[source].manager.hello(goal), b"")

    def _hang_up(self, source: str, destination: str) -> None:
        line = self._line(source, destination)
        if line is not None:
            del self.lines[line]
            self.drivers[destination].turn(SessionClosed(line))

    def _tell(self, source: str, destination: str, head: Head, body: bytes) -> None:
        line = self._line(source, destination)
        self.said.append((source, destination, head))
        if line is not None:
            frame = Frame(head, 0, memoryview(bytearray(body)))
            self.drivers[destination].turn(Request(line, frame))
