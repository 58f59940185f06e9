"""Listens and serves a console until a signal ends it: one process, one loop."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import sys
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Final

import msgspec
import uvicorn

import dray.aio
from dray.aio import Manager
from dray.client.awaited.opening import Opening
from dray.client.connections.address import parse_address
from dray.console import pages
from dray.console.app import TABS, application
from dray.console.console import CONSOLE, Callers, Console
from dray.console.door import LOOPBACK, Doorkeeping, StartLink
from dray.console.http.server import QuietServer, end_with_input, server
from dray.console.v1 import TokenHolders
from dray.errors import InvalidConfiguration, TargetUnwritable
from dray.model.callers import Credential
from dray.model.names import shown_host
from dray.net.certificates import names_of
from dray.net.doors import runtime_link
from dray.net.listening import http_address, listening_socket
from dray.net.tls import presenting
from dray.net.tokens import is_within_machine
from dray.notify import READY, STOPPING, notify

_log = logging.getLogger(__name__)
_NICE: Final = 10
"""Beside a queue manager: where both want the same processor, the console gets a tenth of it."""


class ConsoleOptions(msgspec.Struct, kw_only=True, frozen=True):
    """The options of a console; the first six tell how it reaches the queue manager."""

    url: str
    token_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    listen: str = "127.0.0.1:7341"
    read_only: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_client_ca: str | None = None
    also: list[str] = []
    """Queue managers that are asked too for the story of a message."""
    quiet: bool = False
    """Print the file of the start link, and not the link itself."""
    until_input_ends: bool = False
    """End when standard input ends, as for the program that started it."""


def run(options: ConsoleOptions) -> int:
    """Serve until SIGTERM or SIGINT; give the exit status, 0. Raises `DrayError`s at the start."""
    return asyncio.run(_serve(options))


async def _serve(options: ConsoleOptions) -> int:
    if options.until_input_ends:
        os.nice(_NICE)
    goal = http_address(options.listen)
    context = _tls(options, goal)
    async with AsyncExitStack() as stack:
        callers = Callers(partial(_connecting, options))
        stack.push_async_callback(callers.close)
        holders = TokenHolders(partial(_connecting, options), read_only=options.read_only)
        stack.push_async_callback(holders.close)
        info = await (await callers.manager()).info()
        listening = listening_socket(goal)
        stack.callback(listening.close)
        if isinstance(goal, Path):
            stack.callback(goal.unlink, missing_ok=True)
        place = _place(goal, listening, secure=context is not None)
        keeping = _keeping(options, goal, place, context)
        if keeping.start is not None:
            stack.callback(keeping.start.remove)
        console = Console(
            callers,
            TABS,
            read_only=options.read_only,
            name=info.name,
            others=_others(options),
        )
        stack.push_async_callback(console.close)
        pages.begin(console)
        running = server(application(console, keeping, holders), context)
        if context is not None or options.until_input_ends:
            # Else it runs in a terminal, whose end is told by this signal.
            follow = partial(_follow, options, goal, running, keeping)
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, follow)
        sys.stdout.write(_ready(options, keeping, place))
        sys.stdout.flush()
        await _until_told(running, listening, options)
    return 0


def _connecting(options: ConsoleOptions, visitor: Credential) -> Opening[Manager]:
    """Connect with the token of a visitor, for one with a certificate, or as the console itself."""
    # Certificates are for the queue managers of --also, where the console's own needs no TLS.
    secure = options.url.startswith("drays:") or not options.also
    return dray.aio.connect(
        options.url,
        ca=options.ca if secure else None,
        cert=options.cert if secure else None,
        key=options.key if secure else None,
        token=visitor.token or None,
        token_file=options.token_file if visitor == CONSOLE else None,
        caller=visitor.caller or None,
    )


def _others(options: ConsoleOptions) -> dict[str, Callers]:
    """The other queue managers, by address; each is asked with the same proof of who asks.

    Raises `InvalidConfiguration` for an address that is none.
    """
    found = {}
    for url in options.also:
        given = msgspec.structs.replace(options, url=url)
        files = (given.ca, given.cert, given.key) if url.startswith("drays:") else ()
        parse_address(url, *files)
        found[url] = Callers(partial(_connecting, given))
    return found


def _follow(
    options: ConsoleOptions,
    goal: tuple[str, int] | Path,
    running: QuietServer,
    keeping: Doorkeeping,
) -> None:
    """Show later browsers what the files of the certificate hold now, unless it makes no sense."""
    if isinstance(goal, Path) or options.tls_cert is None:
        return
    try:
        context, names = _tls(options, goal), _names(options, goal[0])
    except InvalidConfiguration as error:
        _log.error(
            "the console did not read its certificate again, and shows the old one: %s", error
        )
        return
    assert context is not None, "there is a certificate"
    running.present(context)
    keeping.rename(names)


async def _until_told(
    server: uvicorn.Server, listening: socket.socket, options: ConsoleOptions
) -> None:
    loop = asyncio.get_running_loop()

    def end() -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)
    if options.until_input_ends:
        end_with_input(server)
    notify(READY)
    await server.serve([listening])
    notify(STOPPING)


def _tls(options: ConsoleOptions, goal: tuple[str, int] | Path) -> ssl.SSLContext | None:
    """The TLS to speak, if any; refuses an address that others reach without it."""
    if options.tls_cert is not None:
        if isinstance(goal, Path):
            raise InvalidConfiguration(
                "a Unix socket needs no TLS: only its owner reaches it; leave --tls-cert out"
            )
        context = presenting(options.tls_cert, options.tls_key, options.tls_client_ca)
        if options.tls_client_ca is not None:
            # A browser without a certificate may sign in with a token.
            context.verify_mode = ssl.CERT_OPTIONAL
        return context
    if options.tls_key is not None or options.tls_client_ca is not None:
        raise InvalidConfiguration("--tls-key and --tls-client-ca need --tls-cert; give it too")
    if isinstance(goal, Path) or is_within_machine(goal[0]):
        return None
    raise InvalidConfiguration(
        f"others on the network reach {options.listen}, and without TLS everyone on the way reads"
        " what they see; give --tls-cert, or listen at 127.0.0.1"
    )


def _place(goal: tuple[str, int] | Path, listening: socket.socket, *, secure: bool) -> str:
    """The origin by which a browser calls the console."""
    if isinstance(goal, Path):
        return "http://localhost"
    port = listening.getsockname()[1]
    return f"{'https' if secure else 'http'}://{shown_host(goal[0])}:{port}"


def _keeping(
    options: ConsoleOptions,
    goal: tuple[str, int] | Path,
    place: str,
    context: ssl.SSLContext | None,
) -> Doorkeeping:
    """Let in the holder of the start link, or elsewhere the holders of tokens."""
    secure = context is not None
    if isinstance(goal, Path):
        file = goal.with_name(f"{goal.name}.url")
        return Doorkeeping(LOOPBACK, start=_start_link(file, place))
    cookie = f"dray-console-{place.rpartition(':')[2]}"
    names = _names(options, goal[0])
    if not is_within_machine(goal[0]):
        return Doorkeeping(names, secure=secure, cookie=cookie)
    file = runtime_link().with_name(f"{cookie}.url")
    start = _start_link(file, place)
    return Doorkeeping(names, secure=secure, start=start, cookie=cookie)


def _names(options: ConsoleOptions, host: str) -> frozenset[str]:
    """The names by which browsers call the console."""
    names = {shown_host(host.lower()), *LOOPBACK}
    if options.tls_cert is not None:
        # A name of the certificate is ours: a browser checks it before it sends anything.
        names |= set(names_of(options.tls_cert))
    return frozenset(names)


def _start_link(file: Path, place: str) -> StartLink:
    """The link that opens the console once; raises `TargetUnwritable`."""
    try:
        return StartLink(file, place)
    except OSError as error:
        raise TargetUnwritable(
            f"the start link of the console cannot be written to {file}:"
            f" {error.strerror or error}; let XDG_RUNTIME_DIR name a directory of this account",
            path=str(file),
        ) from error


def _ready(options: ConsoleOptions, keeping: Doorkeeping, place: str) -> str:
    where = options.listen if "/" in options.listen else place
    if keeping.start is None:
        return f"dray console ready at {where}; sign in with a token\n"
    if options.quiet:
        return f"dray console ready at {where}; open the link in {keeping.start.file}\n"
    return f"dray console ready at {where}; open {keeping.start.url}\n"
