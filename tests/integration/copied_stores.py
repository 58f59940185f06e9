"""Two real queue managers, and data directories that are copied, put back and damaged."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Self

from dray.testing.processes import ManagerProcess
from tests.integration.commands import until

QUICK = "reconnect_delay_s = 0.1\nresend_schedule_s = [0.3]\n"
REPR = re.compile(r"\b[A-Z]\w+\(\w+=|<\w[\w.]* object|\bNone\b|b'")
"""Traces of a Python value in a sentence."""


class Party:
    """A queue manager as a process, and its data directory."""

    def __init__(self, name: str, folder: Path, options: str = "") -> None:
        """Nothing is started yet; `options` are lines of its configuration."""
        folder.mkdir(exist_ok=True)
        config = folder / f"{name}.toml"
        config.write_text(QUICK + options)
        self.folder = folder
        self.process = ManagerProcess(name, folder, ["--config", str(config)])

    @property
    def data(self) -> Path:
        """The data directory."""
        return self.process.data

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.process.url

    def copy(self, to: str) -> Path:
        """Copy the data directory to a place beside it."""
        target = self.folder / to
        shutil.copytree(self.data, target)
        return target

    def put_back(self, copy: Path) -> None:
        """Kill the process, if it runs, and put a copy in the place of its data directory."""
        self.process.kill()
        shutil.rmtree(self.data)
        shutil.copytree(copy, self.data)

    def send(self, url: str, *bodies: bytes) -> None:
        """Send messages one by one, each on its own."""
        with self.process.connect() as manager:
            queue = manager.queue(url)
            for body in bodies:
                queue.send(body)

    def bodies(self, queue: str = "orders") -> list[bytes]:
        """The bodies in a queue, in order."""
        with self.process.connect() as manager:
            return [bytes(each.body) for each in manager.queue(queue).messages()]

    def outgoing(self, url: str) -> tuple[str, int]:
        """The state of an outgoing queue and how many messages it holds."""
        with self.process.connect() as manager:
            info = manager.queue(url).info()
            return info.state, info.message_count

    def welcomes(self, url: str) -> int:
        """How often the destination of an outgoing queue has welcomed this run of the process."""
        with self.process.connect() as manager:
            delivery = manager.queue(url).info().delivery
        assert delivery is not None
        return [each.state for each in delivery.history].count("welcomed")

    def log(self) -> list[dict[str, object]]:
        """What the process logged, over all its runs."""
        lines = self.process.log.read_text("utf-8").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def warnings(self, kind: str) -> list[str]:
        """The sentences that it logged of a kind."""
        return [str(line["message"]) for line in self.log() if line.get("kind") == kind]

    def assert_readable_log(self) -> None:
        """No line shows a Python value."""
        for line in self.log():
            assert not REPR.search(str(line["message"])), line


class Pair:
    """A source that delivers to the queue `orders` of a destination."""

    def __init__(self, folder: Path, options: str = "") -> None:
        """Start both; `options` are lines of the source's configuration."""
        self.source = Party("source", folder, options)
        self.destination = Party("destination", folder)
        self._others: list[Party] = []
        self.destination.process.start()
        with self.destination.process.connect() as manager:
            manager.create_queue("orders")
        self.source.process.start()

    @property
    def url(self) -> str:
        """The address of the queue."""
        return f"{self.destination.url}/orders"

    def other(self, name: str, port: int = 0) -> Party:
        """One more queue manager, which ends with the others."""
        party = Party(name, self.source.folder)
        party.process.port = port
        self._others.append(party)
        return party

    def send(self, *bodies: bytes) -> None:
        """Send from the source."""
        self.source.send(self.url, *bodies)

    def delivered(self, *bodies: bytes) -> None:
        """Send from the source, and wait until all of it is delivered."""
        self.send(*bodies)
        until(lambda: self.source.outgoing(self.url) == ("connected", 0))

    def __enter__(self) -> Self:
        """Both run."""
        return self

    def __exit__(self, *_: object) -> None:
        """End all of them."""
        for each in (self.source, self.destination, *self._others):
            each.process.kill()


def flip_newest(party: Party, body: bytes) -> bool:
    """Flip a bit in the middle of a payload, in the file that holds it; whether one does."""
    for path in sorted((party.data / "storage").glob("p*.mq")):
        at = path.read_bytes().find(body)
        if at >= 0:
            with path.open("r+b") as file:
                file.seek(at + len(body) // 2)
                byte = file.read(1)[0]
                file.seek(at + len(body) // 2)
                file.write(bytes([byte ^ 4]))
            return True
    return False
