"""`dray serve`: a queue manager in this process, until SIGTERM or SIGINT."""

from __future__ import annotations

import click

from dray.cli.sizes import Size


@click.command()
@click.option("--data", metavar="DIR", help="Where its queues live; made if missing  [required].")
@click.option(
    "--listen",
    envvar="DRAY_LISTEN",
    show_envvar=True,
    metavar="HOST:PORT",
    help="TCP address; port 0 takes a free one  [default: 127.0.0.1:7340].",
)
@click.option("--socket", metavar="PATH", help="Unix socket to listen on as well, or instead.")
@click.option("--tls-cert", metavar="FILE.pem", help="Speak TLS on TCP, with this certificate.")
@click.option("--tls-key", metavar="FILE.pem", help="Its key  [default: in the same file].")
@click.option(
    "--tls-ca",
    metavar="FILE.pem",
    help="Authorities to trust when calling drays:// addresses  [default: the machine's].",
)
@click.option(
    "--tls-client-ca",
    metavar="FILE.pem",
    help="Accept only clients that present a certificate signed by one of these authorities.",
)
@click.option(
    "--config", metavar="FILE.toml", help="These options and more; the command line wins."
)
@click.option("--name", help="Its name for people  [default: the host's name].")
@click.option("--quota", type=Size(), help="Most bytes in all its queues  [default: 8GiB].")
@click.option("--journal-quota", type=Size(), help="Most bytes in journals  [default: 8GiB].")
@click.option(
    "--low-water", type=Size(), help="Free disk that messages must leave  [default: 64MiB]."
)
def command(
    *,
    data: str | None,
    listen: str | None,
    socket: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_ca: str | None,
    tls_client_ca: str | None,
    config: str | None,
    name: str | None,
    quota: int | None,
    journal_quota: int | None,
    low_water: int | None,
) -> int:
    """Run a queue manager; prints one line with its addresses when it is ready."""
    from dray.daemon.config import read_options
    from dray.daemon.server import serve

    options = read_options(
        config,
        data=data,
        listen=listen,
        socket=socket,
        tls_cert=tls_cert,
        tls_key=tls_key,
        tls_ca=tls_ca,
        tls_client_ca=tls_client_ca,
        name=name,
        quota=quota,
        journal_quota=journal_quota,
        low_water=low_water,
    )
    return serve(options)
