"""`dray service`: a systemd unit that runs `dray serve`, `watch` or `receive --follow`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import click

from dray.cli.settings import CommandGroup

_KINDS: Final = {
    "serve": "queue manager",
    "watch": "watched folder",
    "receive": "receiver",
}
_DIRECTORIES: Final = ("data", "state", "directory", "folder", "config")
"""Options and arguments that name a directory or a file in one, where the service works."""
_VARIABLES: Final = ("DRAY_URL", "DRAY_CA", "DRAY_CERT", "DRAY_KEY", "DRAY_LISTEN")
_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - no file is made there
_HARDENING: Final = """\
UMask=0077
NoNewPrivileges=yes
ProtectSystem=strict
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
PrivateDevices=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
CapabilityBoundingSet=
LimitNOFILE=65536
"""


@click.group(cls=CommandGroup)
def command() -> None:
    """Run commands as services of systemd."""


@command.command(
    "print",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--user", metavar="NAME", help="Account that runs it  [default: this one].")
@click.argument("kind", type=click.Choice(list(_KINDS)))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def print_unit(
    context: click.Context, user: str | None, kind: str, arguments: tuple[str, ...]
) -> None:
    """Print a systemd unit that runs `dray KIND ARGUMENTS`, such as serve --data /var/lib/dray.

    \b
    dray service print serve --data /var/lib/dray > /etc/systemd/system/dray.service
    systemctl daemon-reload && systemctl enable --now dray

    The command checks the arguments, and starts nothing. The service is ready when the queue
    manager answers, or when the command is connected to one. It may write only where its arguments
    say.
    """  # noqa: D301 - click reads a backspace
    root = context.find_root().command
    assert isinstance(root, click.Group)
    chosen = root.get_command(context, kind)
    assert chosen is not None, "the choice has commands only"
    with chosen.make_context(kind, list(arguments), parent=context.find_root()) as parsed:
        given = parsed.params
    if kind == "receive" and not given.get("follow"):
        raise click.UsageError("A service receives for ever: give receive --follow, too.")
    click.echo(_unit(kind, user, arguments, list(_places(given))), nl=False)


def _unit(kind: str, user: str | None, arguments: Sequence[str], places: list[Path]) -> str:
    command_line = " ".join(map(_quoted, [*_program(), kind, *arguments]))
    account = user or _account()
    environment = "".join(
        f"Environment={_quoted(f'{name}={os.environ[name]}')}\n"
        for name in _VARIABLES
        if os.environ.get(name)
    )
    writable = "".join(f"ReadWritePaths={_quoted(os.fspath(each))}\n" for each in places)
    hidden = "" if any(_is_below(each, *_TEMPORARY) for each in places) else "PrivateTmp=yes\n"
    # SIGTERM is for the receiver; a command of `--exec` goes on to its end.
    ends = "KillMode=mixed\n" if kind == "receive" else ""
    home = "read-only" if any(_is_below(each, "/home", "/root") for each in places) else "yes"
    return f"""\
[Unit]
Description=Dray {_KINDS[kind]}
Documentation=man:systemd.service(5)
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={command_line}
WorkingDirectory={_quoted_path(Path.cwd())}
User={account}
Restart=on-failure
RestartSec=2
{ends}TimeoutStartSec=infinity
WatchdogSec=2min
{environment}{writable}ProtectHome={home}
{hidden}{_HARDENING}
[Install]
WantedBy=multi-user.target
"""


def _program() -> list[str]:
    """How this program is started by its whole path."""
    found = shutil.which("dray")
    if Path(sys.argv[0]).name == "dray" and Path(sys.argv[0]).exists():
        found = os.fspath(Path(sys.argv[0]).resolve())
    return [found] if found else [sys.executable, "-m", "dray"]


def _account() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _places(given: dict[str, object]) -> Iterable[Path]:
    """The directories in which the command writes, whole and each once."""
    after = str(given.get("after") or "")
    if after.startswith("move:"):
        # Two places of a unit are two mounts, and no file moves from one to the other.
        watched = Path(str(given["directory"])).resolve()
        both = os.path.commonpath([watched, Path(after.removeprefix("move:")).resolve()])
        if both == os.sep:
            raise click.UsageError(
                "--after move:DIR of a service needs a directory other than / that holds both DIR"
                " and the watched one: the service may write only there."
            )
        given = given | {"directory": both}
    found = dict.fromkeys(
        Path(os.fspath(value)).resolve()
        for name in _DIRECTORIES
        if name != "config" and isinstance(value := given.get(name), str | os.PathLike)
        if value != "-" and "://" not in os.fspath(value)
    )
    yield from found


def _is_below(path: Path, *folders: str) -> bool:
    return any(path.is_relative_to(each) for each in folders)


def _quoted(text: str) -> str:
    """One word of a unit: systemd takes away quotes, and reads % and $."""
    text = text.replace("%", "%%").replace("$", "$$")
    if text and not any(each in " \t\n\"'\\;" for each in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _quoted_path(path: Path) -> str:
    return os.fspath(path).replace("%", "%%")
