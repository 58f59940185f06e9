"""Answers `/metrics`, `/healthz` and `/readyz` over HTTP, in threads of its own.

    /healthz   200 while the queue manager answers within five seconds
    /readyz    200 while it answers and its disk has more free room than the low-water mark
    /metrics   the metrics of this moment, which may take longer: health is asked beside it

A queue manager that was poisoned by a failed sync answers nobody, so both end with 503.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotInTime
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Final, TypeVar

from dray.client.blocking.manager import Manager
from dray.client.connections.runtime import Dialer
from dray.errors import AddressInUse, DrayError, InvalidConfiguration
from dray.model.queue import ManagerInfo, QueueInfo
from dray.model.words import human_size
from dray.net.listening import clear_socket, http_address

_log = logging.getLogger(__name__)
ANSWER_S: Final = 5.0
"""A queue manager that has not answered by then is not well."""
LISTED_S: Final = 30.0
"""The time that a list of all queues may take: 100,000 took 2 s, and 7 s on a busy machine."""
_REQUEST_S: Final = 10.0
"""A caller that has not said what it wants by then is hung up on."""
_AT_ONCE_MAX: Final = 16
"""Callers that are answered side by side; a scraper opens one connection."""
_TEXT: Final = "text/plain; charset=utf-8"
_Result = TypeVar("_Result")


class MetricsServer:
    """Listens at one address until it is closed."""

    def __init__(self, address: str, dialer: Dialer) -> None:
        """Listen; raises `AddressInUse`, and `InvalidConfiguration` without prometheus-client."""
        try:
            from dray.metrics.collector import CONTENT_TYPE, exposition
        except ImportError as error:
            raise InvalidConfiguration(
                "`http` needs the package prometheus-client; install dray[metrics]"
            ) from error
        self._asked = _Asked(dialer)
        pages: dict[str, Callable[[], _Answer]] = {
            "/metrics": lambda: (
                HTTPStatus.OK, CONTENT_TYPE, exposition(*self._asked.state())
            ),
            "/healthz": self._asked.health,
            "/readyz": self._asked.readiness,
        }  # fmt: skip
        self._server, self.address = _listening(address, pages)
        self.told = f"HTTP at {self.address}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="dray-metrics", daemon=True
        )
        self._thread.start()

    def follow(self) -> None:
        """Do nothing: it has no certificate."""

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._server.forget_address()
        self._asked.close()


_Answer = tuple[HTTPStatus, str, bytes]


class _NotInTimeError(Exception):
    """The queue manager did not answer within so many seconds."""


class _Asked:
    """The queue manager, asked over two connections: health does not wait for a long list."""

    def __init__(self, dialer: Dialer) -> None:
        self._health, self._lists = _Asker(dialer), _Asker(dialer)

    def state(self) -> tuple[ManagerInfo, list[QueueInfo]]:
        """The state of the manager and of its queues."""
        info = self._lists.within(ANSWER_S, lambda manager: manager.info())
        return info, self._lists.within(LISTED_S, lambda manager: manager.queues())

    def health(self) -> _Answer:
        """Whether it answers."""
        self._info()
        return HTTPStatus.OK, _TEXT, b"alive\n"

    def readiness(self) -> _Answer:
        """Whether it can take messages."""
        low = said_of_room(self._info())
        if low:
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, low.encode()
        return HTTPStatus.OK, _TEXT, b"ready\n"

    def close(self) -> None:
        """Close the connections."""
        self._health.close()
        self._lists.close()

    def _info(self) -> ManagerInfo:
        return self._health.within(ANSWER_S, lambda manager: manager.info())


class _Asker:
    """One connection with a thread of its own, in which questions wait for each other."""

    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._manager: Manager | None = None
        self._worker = ThreadPoolExecutor(1, "dray-metrics-ask")

    def within(self, seconds: float, ask: Callable[[Manager], _Result]) -> _Result:
        """The answer; raises `_NotInTimeError`."""
        asked: Future[_Result] = self._worker.submit(lambda: ask(self._connected()))
        try:
            return asked.result(seconds)
        except NotInTime:
            raise _NotInTimeError(seconds) from None
        finally:
            asked.cancel()

    def close(self) -> None:
        """Close the connection."""
        self._worker.shutdown(cancel_futures=True)
        if self._manager is not None:
            self._manager.close()

    def _connected(self) -> Manager:
        if self._manager is None:
            self._manager = Manager(self._dialer)
        return self._manager


def said_of_room(info: ManagerInfo) -> str:
    """Why the queue manager is not ready to take messages; "" if it is."""
    if info.disk_free > info.low_water:
        return ""
    return (
        f"the disk has {human_size(info.disk_free)} free, and new messages must leave"
        f" {human_size(info.low_water)}\n"
    )


def _listening(address: str, pages: dict[str, Callable[[], _Answer]]) -> tuple[_Server, str]:
    goal = http_address(address)
    try:
        if isinstance(goal, Path):
            clear_socket(goal)
            return _UnixServer(str(goal), pages), f"http+unix://{goal.absolute()}"
        server = _Server(goal, pages)
    except OSError as error:
        raise AddressInUse(
            f"http: nothing can listen at {address}: {error.strerror or error}; choose another"
            " address"
        ) from error
    host, port = server.server_address[:2]
    return server, f"http://{host!s}:{port}"


class _Server(ThreadingMixIn, HTTPServer):
    daemon_threads = True

    def __init__(self, address: Any, pages: dict[str, Callable[[], _Answer]]) -> None:  # noqa: ANN401
        self.pages = pages
        self._places = threading.Semaphore(_AT_ONCE_MAX)
        if isinstance(address, tuple) and ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _HttpRequest)

    def forget_address(self) -> None:
        """Leave nothing behind at the address."""

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, *_: object) -> None:
        """Log what went wrong, unless the caller hung up."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            _log.error("a request over HTTP failed", exc_info=error)


class _UnixServer(_Server):
    address_family = socket.AF_UNIX

    def forget_address(self) -> None:
        Path(str(self.server_address)).unlink(missing_ok=True)

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        Path(str(self.server_address)).chmod(0o600)
        self.server_name, self.server_port = "localhost", 0


class _HttpRequest(BaseHTTPRequestHandler):
    timeout = _REQUEST_S
    server: _Server

    def handle(self) -> None:
        """Answer one request, whose head is there in time: `timeout` begins anew with each byte."""
        late = threading.Timer(_REQUEST_S, self._read_no_more)
        late.daemon = True
        late.start()
        try:
            super().handle()
        finally:
            late.cancel()

    def _read_no_more(self) -> None:
        # It may be gone by now.
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def do_GET(self) -> None:
        """Answer one request."""
        page = self.server.pages.get(self.path.partition("?")[0])
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, _TEXT, b"/metrics, /healthz, /readyz\n")
            return
        try:
            status, kind, body = page()
        except _NotInTimeError as error:
            said = f"the queue manager did not answer within {error.args[0]:g} s\n"
            status, kind, body = HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, said.encode()
        except DrayError as error:
            status, kind, body = HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{error}\n".encode()
        self._answer(status, kind, body)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def address_string(self) -> str:
        """A Unix socket has no address."""
        return str(self.client_address)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as it is called
        """Requests are not logged."""
