"""A queue manager and its console as processes of their own, as users run them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path

import httpx

import dray
from tests.integration.commands import COMMAND, environment

READY = re.compile(r"dray console ready at (\S+); (?:open|sign in)")


class ConsoleProcess:
    """`dray console` beside the queue manager at `url`."""

    def __init__(self, url, folder, *options):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        given = environment(url) | {"XDG_RUNTIME_DIR": str(folder)}
        given.pop("PYTHONDONTWRITEBYTECODE", None)
        listen = () if "--listen" in options else ("--listen", "127.0.0.1:0")
        self.log = folder / "console.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*COMMAND, "console", *listen, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=given,
            )
        self.said = self._process.stdout.readline().decode()
        found = READY.match(self.said)
        if not found:
            self.stop()
            raise AssertionError(f"{self.said!r}\n{self.log.read_text()}")
        self.address = found[1]

    @property
    def pid(self):
        return self._process.pid

    @property
    def link_file(self):
        """The file that holds the start link."""
        return next(self.folder.glob("*.url"))

    def session(self):
        """A cookie of a new session, by the start link."""
        with httpx.Client() as client:
            answer = client.get(self.link_file.read_text().strip())
            assert answer.status_code == 303, answer.text
            ((name, value),) = answer.cookies.items()
            return name, value

    def client(self):
        """A client of HTTP that is signed in, and calls as a page of the console does."""
        name, value = self.session()
        return httpx.Client(
            base_url=self.address,
            cookies={name: value},
            headers={"Origin": self.address},
            timeout=60,
        )

    def stop(self):
        """End it in good order; its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(30)
        finally:
            self._process.stdout.close()

    def logged(self):
        """Everything that it said on standard error."""
        return self.log.read_text()


@contextmanager
def managed(folder, *options):
    """A queue manager with a socket; its address."""
    sock = folder / "m.sock"
    serve = [*COMMAND, "serve", "--data", str(folder / "data"), "--socket", str(sock), *options]
    given = environment() | {"XDG_RUNTIME_DIR": str(folder)}
    with (folder / "serve.log").open("wb") as log:
        process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=log, env=given)
    try:
        assert process.stdout.readline(), (folder / "serve.log").read_text()
        yield f"dray+unix://{sock}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        process.stdout.close()


class Stage:
    """A queue manager and a console, with a connection for the test."""

    def __init__(self, url, folder, *options):
        self.url = url
        self.console = ConsoleProcess(url, folder / "console", *options)
        self.address = self.console.address
        self._cookie = None

    @property
    def cookie(self):
        """One session for all pages of the tests."""
        if self._cookie is None:
            self._cookie = self.console.session()
        return self._cookie

    def connect(self):
        return dray.connect(self.url)


@contextmanager
def staged(folder, *options):
    """A queue manager and a console, ended with the block."""
    with managed(folder) as url:
        stage = Stage(url, folder, *options)
        try:
            yield stage
        finally:
            assert stage.console.stop() == 0
            assert stage.console.logged() == ""


def screenshots_folder():
    """The folder for screenshots, out of git."""
    named = os.environ.get("DRAY_SCREENSHOTS")
    return Path(named) if named else Path(__file__).parents[2] / "build" / "screenshots"
