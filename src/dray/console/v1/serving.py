"""The server of `/v1` as a process of its own, beside a queue manager.

`dray serve --http ADDRESS` starts it (`dray/metrics/process.py`), and it ends with the queue
manager.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.routing import Route

import dray.aio
from dray.console.http.refusal import HttpRefusal
from dray.console.http.server import end_with_input, server
from dray.console.v1.calls import problem
from dray.console.v1.holders import TokenHolders
from dray.console.v1.operators import OPERATORS, passed_on
from dray.console.v1.routes import no_such_path, routes
from dray.model.names import shown_host
from dray.net.listening import http_address, listening_socket
from dray.net.tokens import is_within_machine

_CLOSED: Final = HttpRefusal(
    403, "needs-tls", "others on the network could read the tokens of this address; serve"
    " /v1 at a loopback address behind a proxy that speaks TLS, or by dray console with"
    " --tls-cert",
)  # fmt: skip


def application(url: str, operators: str, *, private: bool = True) -> Starlette:
    """`/v1` alone, and the pages for operators from the Unix socket at `operators`.

    Where the address is not private, others could read the tokens, so `/v1` is closed.
    """
    holders = TokenHolders(lambda who: dray.aio.connect(url, token=who.token))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await holders.close()

    pages = [Route(each, partial(passed_on, operators)) for each in OPERATORS]
    # An answer, and no function, which would be asked by some methods only.
    programs = routes if private else [Route("/v1/{rest:path}", problem(_CLOSED))]
    # No pattern of a route matches a path with a line break.
    told = {404: no_such_path}
    app = Starlette(routes=[*pages, *programs], exception_handlers=told, lifespan=lifespan)
    app.state.token_holders = holders
    return app


def main(url: str, address: str, operators: str) -> int:
    """Serve until standard input ends, which its starter holds open."""
    goal = http_address(address)
    sock = listening_socket(goal)
    where = _url_of(goal, sock)
    private = isinstance(goal, Path) or is_within_machine(goal[0])
    running = server(application(url, operators, private=private))

    # A terminal and a service manager signal both processes, and the queue manager ends this one.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)

    async def run() -> None:
        end_with_input(running)
        await running.serve(sockets=[sock])

    sys.stdout.write(f"{where}\n")
    sys.stdout.flush()
    asyncio.run(run())
    if isinstance(goal, Path):
        goal.unlink(missing_ok=True)
    return 0


def _url_of(goal: tuple[str, int] | Path, sock: socket.socket) -> str:
    if isinstance(goal, Path):
        return f"http+unix://{goal.absolute()}"
    host, port = sock.getsockname()[:2]
    return f"http://{shown_host(host)}:{port}"
