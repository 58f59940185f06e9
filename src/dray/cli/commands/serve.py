"""`dray serve`: run a queue manager in this process until SIGTERM or SIGINT."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from dray.cli.option_types import Size
from dray.cli.settings import Settings
from dray.errors import InvalidConfiguration
from dray.model.platforms import require_linux
from dray.net.doors import socket_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from dray.daemon.config import ServeOptions
    from dray.daemon.process import Companion, OwnDoor
    from dray.daemon.side_process import SideProcess

_NEEDED: Final = ("starlette", "jinja2", "uvicorn")
_READY: Final = re.compile(r"dray console ready at (?:https?://)?([^;]+)")


@click.command()
@click.option(
    "--data",
    metavar="DIR",
    help=("Data directory of the queue manager; created if missing  [required]."),
)
@click.option(
    "--listen",
    envvar="DRAY_LISTEN",
    show_envvar=True,
    metavar="HOST:PORT",
    help="TCP address to listen on; port 0 picks a free port  [default: none].",
)
@click.option(
    "--socket",
    metavar="PATH",
    help="Unix socket to listen on  [default without --listen: dray.sock in the data directory].",
)
@click.option(
    "--http",
    metavar="HOST:PORT|PATH",
    help="Serve /v1 (HTTP for programs), /metrics, /healthz and /readyz at this address or socket.",
)
@click.option(
    "--console",
    is_flag=False,
    flag_value="127.0.0.1:7341",
    metavar="[HOST:PORT|PATH]",
    help="Run `dray console` beside it, in a process of its own  [alone: at 127.0.0.1:7341].",
)
@click.option(
    "--console-also",
    multiple=True,
    metavar="URL",
    help="Another queue manager that the console asks for the story of a message; repeatable.",
)
@click.option(
    "--tls-cert",
    metavar="FILE.pem",
    help=("Certificate to present: TCP clients must then use TLS."),
)
@click.option(
    "--tls-key",
    metavar="FILE.pem",
    help=("Private key of the certificate  [default: in the same file]."),
)
@click.option(
    "--tls-ca",
    metavar="FILE.pem",
    help="Authorities to trust when connecting to drays:// addresses  [default: the machine's].",
)
@click.option(
    "--tls-client-ca",
    metavar="FILE.pem",
    help="Accept only clients that present a certificate signed by one of these authorities.",
)
@click.option(
    "--open",
    is_flag=True,
    default=None,
    help="Let everyone in who can connect, with each right that no rule restricts: no protection.",
)
@click.option(
    "--peer",
    "peers",
    multiple=True,
    metavar="WHO",
    help="Queue manager that may deliver to every queue here, such as cert:NAME; may be repeated.",
)
@click.option(
    "--config",
    metavar="FILE.toml",
    help=("Read these options and more from a file; the command line overrides it."),
)
@click.option("--name", help="Name of the queue manager, for people  [default: the host name].")
@click.option(
    "--quota", type=Size(), help="Most bytes in all queues and their journals  [default: 8GiB]."
)
@click.option(
    "--journal-quota",
    type=Size(),
    help=("Most bytes in the source journal and the dead-letter queues  [default: 8GiB]."),
)
@click.option(
    "--low-water",
    type=Size(),
    help=("Disk space that new messages must leave free  [default: 64MiB]."),
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log to standard error from this level on  [default: warning].",
)
@click.pass_obj
def command(
    settings: Settings,
    /,
    *,
    config: str | None,
    peers: tuple[str, ...],
    console_also: tuple[str, ...],
    log_level: str | None,
    **options: Any,  # noqa: ANN401 - the options of `ServeOptions`
) -> int:
    """Run a queue manager, and print its addresses in one line when it is ready. Needs Linux."""
    require_linux("a queue manager")
    from dray.daemon.process import serve

    read = partial(
        options_of,
        config=config,
        peers=peers,
        console_also=console_also,
        log_level=log_level or settings.log_level,
        **options,
    )
    asked = read()
    beside: list[Callable[[OwnDoor], Companion]] = []
    if (address := asked.http) is not None:
        from dray.metrics.process import HttpProcess, can_serve_programs

        if can_serve_programs():
            asked, url = _with_socket(asked)
            beside.append(partial(HttpProcess, address, url))
        else:
            from dray.metrics.http import MetricsServer

            beside.append(partial(MetricsServer, address))
    if asked.console is not None:
        asked, url = _with_socket(asked)
        beside.append(partial(_console_process, asked, url))
    return serve(asked, read, beside=beside)


def options_of(
    *,
    config: str | None,
    peers: tuple[str, ...],
    console_also: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - the options of `ServeOptions`
) -> ServeOptions:
    """Give the options that the parameters ask for; raises `InvalidConfiguration`."""
    from dray.daemon.config import read_options

    return read_options(config, console_also=console_also or None, **options).accepting(peers)


def _with_socket(options: ServeOptions) -> tuple[ServeOptions, str]:
    """These options with a Unix socket for processes beside the queue manager, and its URL."""
    import msgspec

    own = os.fspath(socket_of(options.data))
    if options.socket is None and options.listen is not None:
        options = msgspec.structs.replace(options, socket=own)
    where = Path(options.socket or own).absolute()
    return options, f"dray+unix://{quote(os.fspath(where))}"


def _console_process(options: ServeOptions, url: str, door: OwnDoor) -> SideProcess:
    """Start `dray console` beside the queue manager.

    Raises `AddressInUse`, and `InvalidConfiguration` without the extra.
    """
    from dray.daemon.side_process import SideProcess

    del door
    missing = [each for each in _NEEDED if find_spec(each) is None]
    if missing:
        raise InvalidConfiguration(
            f"the console needs the package {missing[0]}; install dray[console]"
        )
    assert options.console is not None
    command = [sys.executable, "-m", "dray.cli", "--url", url]
    # The console trusts and presents the same at other queue managers.
    given = {"--ca": options.tls_ca, "--cert": options.tls_cert, "--key": options.tls_key}
    for name, file in given.items() if options.console_also else ():
        command += [name, file] if file is not None else []
    command += ["console", "--listen"]
    address_at = len(command)
    command += [options.console, "--quiet", "--until-input-ends"]
    for each in options.console_also:
        command += ["--also", each]
    if options.tls_cert is not None and "/" not in options.console:
        command += ["--tls-cert", options.tls_cert]
        if options.tls_key is not None:
            command += ["--tls-key", options.tls_key]
        if options.tls_client_ca is not None:
            command += ["--tls-client-ca", options.tls_client_ca]
    process = SideProcess("console", command, address_at)
    if found := _READY.match(process.said):
        process.keep_address(found[1])
    return process
