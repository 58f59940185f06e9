"""`dray console`: what is stuck, in a browser."""

from __future__ import annotations

from typing import Any

import click

from dray.cli.settings import Settings, takes_url_and_json


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:7341",
    show_default=True,
    metavar="HOST:PORT|PATH",
    help="Address or Unix socket to listen at; port 0 picks a free port.",
)
@click.option("--read-only", is_flag=True, help="Show everything and change nothing.")
@click.option("--tls-cert", metavar="FILE.pem", help="Certificate to present to browsers.")
@click.option(
    "--tls-key",
    metavar="FILE.pem",
    help="Private key of the certificate  [default: in the same file].",
)
@click.option(
    "--tls-client-ca",
    metavar="FILE.pem",
    help="Let in browsers that present a certificate signed by one of these authorities, without"
    " a token and with the rights of cert:NAME.",
)
@click.option(
    "--also",
    multiple=True,
    metavar="URL",
    help="Another queue manager that is asked for the story of a message; repeatable.",
)
@click.option(
    "--quiet",
    is_flag=True,
    help="Print the file that holds the start link instead of the link, as for a log.",
)
@click.option("--until-input-ends", is_flag=True, hidden=True, help="End when standard input ends.")
@takes_url_and_json
def command(
    settings: Settings,
    /,
    *,
    also: tuple[str, ...],
    **options: Any,  # noqa: ANN401 - the options of `ConsoleOptions`
) -> int:
    """Show queues, dead letters and deliveries in a browser, until told to stop.

    It prints a link that opens it once. At an address that other machines reach it needs
    --tls-cert, and each visitor presents a certificate or signs in with a token, and has its
    rights. Needs the extra console.
    """
    from dray.console import run

    return run(
        {
            "url": settings.url,
            "token_file": settings.token_file,
            "ca": settings.ca,
            "cert": settings.cert,
            "key": settings.key,
            "also": list(also),
            **options,
        }
    )
