"""`dray service`: a systemd unit that runs `dray serve`, `watch` or `receive --follow`."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import click
from click.core import ParameterSource

from dray.cli.commands import receive, watch
from dray.cli.commands.serve import options_of
from dray.cli.settings import CommandGroup, Settings
from dray.net.doors import URL_VARIABLE, default_url
from dray.net.tokens import TOKEN_VARIABLE

if TYPE_CHECKING:
    from dray.daemon.config import ServeOptions

_KINDS: Final = {
    "serve": "queue manager",
    "watch": "watched folder",
    "receive": "receiver",
}
_VARIABLES: Final = ("DRAY_URL", "DRAY_CA", "DRAY_CERT", "DRAY_KEY", "DRAY_LISTEN")
_FILES: Final = ("tls_cert", "tls_key", "tls_ca", "tls_client_ca")
"""Options of a queue manager that name files which it reads."""
_OWN_FILES: Final = ("ca", "cert", "key", "token_file")
"""The same of a client."""
_HOMES: Final = ("/home", "/root", "/run/user")
_RUN: Final = Path("/run")
"""A start of the machine empties it, so systemd makes the directories of sockets there."""
_UNIX: Final = "dray+unix://"
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
    root = context.find_root()
    assert isinstance(root.command, click.Group)
    chosen = root.command.get_command(context, kind)
    assert chosen is not None, "the choice has commands only"
    with chosen.make_context(kind, list(arguments), parent=root) as parsed:
        given = parsed.params
        if kind == "watch":
            watch.check_usage(given["wait"], given["after"])
        elif kind == "receive":
            if not given["follow"]:
                raise click.UsageError("A service receives for ever: give receive --follow, too.")
            receive.check_usage(parsed)
    _check_callee(kind, root.ensure_object(Settings))
    command = [*_program(), *_global_words(root), kind, *arguments]
    if kind == "serve":
        options = options_of(**given)
        writes, named = _written_by(options), _read_by(options, given["config"])
    else:
        writes, named = _places(kind, given), _read(root)
    reads = [Path(command[0]), Path(sys.prefix), Path(sys.base_prefix), *named]
    account = user or _account()
    relative = [each for each in (*writes, *reads) if not each.is_absolute()]
    home = _start(account, relative)
    service = Service(kind, account, command, home, _whole(writes), _whole([*reads, home]))
    for sentence in _to_do(service):
        click.echo(f"dray: before the service starts, {sentence}", err=True)
    click.echo(_unit(service), nl=False)


class Service(NamedTuple):
    """A service, as its unit describes it."""

    kind: str
    account: str
    command: Sequence[str]
    home: Path
    """The directory in which it starts: relative paths begin there."""
    writes: Sequence[Path]
    """The directories in which it writes, whole and each once."""
    reads: Sequence[Path]
    """Files and directories that it only reads, and cannot do without."""


def _unit(service: Service) -> str:
    environment = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    lines = [f"Environment={_quoted(f'{name}={value}')}\n" for name, value in environment.items()]
    is_manager = service.kind == "serve"
    made = [each for each in service.writes if is_manager and each.parent == _RUN]
    lasting = [each for each in service.writes if each not in made]
    lines += [f"ReadWritePaths={_quoted(os.fspath(each))}\n" for each in lasting]
    if is_manager:
        # The link to its socket, and the start link of a console: no home need be there for them.
        runtime = " ".join(["%N", *(_quoted(each.name) for each in made)])
        lines += [f"RuntimeDirectory={runtime}\n", "Environment=XDG_RUNTIME_DIR=%t/%N\n"]
        lines += ["ExecReload=kill -HUP $MAINPID\n"]
    touched = [*service.writes, *service.reads]
    private = not any(_is_below(each, *_TEMPORARY) for each in touched)
    lines.append("PrivateTmp=yes\n" if private else f"ReadWritePaths={_TEMPORARY[0]}\n")
    hidden = "read-only" if any(_is_below(each, *_HOMES) for each in touched) else "yes"
    return f"""\
[Unit]
Description=Dray {_KINDS[service.kind]}
Documentation=man:systemd.service(5)
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
ExecStart={" ".join(_quoted(each.replace("$", "$$")) for each in service.command)}
WorkingDirectory={_quoted_path(service.home)}
User={service.account}
Restart=on-failure
RestartSec=2
KillMode=mixed
TimeoutStartSec=infinity
WatchdogSec=2min
{"".join(lines)}ProtectHome={hidden}
{_HARDENING}
[Install]
WantedBy=multi-user.target
"""


def _check_callee(kind: str, settings: Settings) -> None:
    """Refuse a client that would find no queue manager, or would have no token, as a service."""
    if kind == "serve":
        return
    if settings.url == default_url() and not os.environ.get(URL_VARIABLE):
        raise click.UsageError(
            "A service has no link to the queue manager of its account: name the queue manager with"
            " --url or DRAY_URL, such as --url dray+unix:///var/lib/dray/dray.sock."
        )
    if os.environ.get(TOKEN_VARIABLE) and settings.token_file is None:
        raise click.UsageError(
            "DRAY_TOKEN cannot become part of a unit, which others can read: keep the token in a"
            " file, and give `dray --token-file FILE service print ...`."
        )


def _global_words(root: click.Context) -> Iterable[str]:
    """The options that stand before `service`: they are for the command, too."""
    for option in root.command.params:
        name = option.name
        assert name is not None
        if root.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            yield option.opts[0]
            if root.params[name] is not True:
                yield str(root.params[name])


def _program() -> list[str]:
    """The command that starts this program by its whole path."""
    found = shutil.which("dray")
    if Path(sys.argv[0]).name == "dray" and Path(sys.argv[0]).exists():
        found = os.fspath(Path(sys.argv[0]).resolve())
    return [found] if found else [sys.executable, "-m", "dray"]


def _account() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _written_by(options: ServeOptions) -> list[Path]:
    """The directories in which a queue manager writes."""
    doors = (options.socket, options.http, options.console)
    return [Path(options.data), *(Path(each).parent for each in doors if each and "/" in each)]


def _read_by(options: ServeOptions, config: str | None) -> list[Path]:
    """The files that a queue manager reads."""
    named = [config, *(getattr(options, each) for each in _FILES)]
    named += [each.token_file for each in options.peers]
    return [Path(each) for each in named if each is not None]


def _places(kind: str, given: Mapping[str, Any]) -> list[Path]:
    """The directories in which a watched folder or a receiver writes."""
    if kind == "receive":
        target = given["folder"]
        return [] if target is None or target == "-" or "://" in target else [Path(target)]
    watched = Path(given["directory"])
    after = given["after"]
    if after.startswith("move:"):
        # Two places of a unit are two mounts, and no file moves from one to the other.
        moved = Path(after.removeprefix("move:")).resolve()
        watched = Path(os.path.commonpath([watched.resolve(), moved]))
        if watched == Path(os.sep):
            raise click.UsageError(
                "--after move:DIR of a service needs a directory other than / that holds both DIR"
                " and the watched one: the service may write only there."
            )
    return [Path(given["state"]), watched]


def _read(root: click.Context) -> list[Path]:
    """The files that a client reads, and the socket of the queue manager that it calls."""
    settings = root.ensure_object(Settings)
    named = [getattr(settings, each) for each in _OWN_FILES]
    named += [os.environ.get(f"DRAY_{each.upper()}") for each in _OWN_FILES[:3]]
    if settings.url.startswith(_UNIX):
        named.append(unquote(settings.url.removeprefix(_UNIX)))
    return [Path(each) for each in named if each]


def _whole(paths: Iterable[Path]) -> list[Path]:
    return list(dict.fromkeys(each.resolve() for each in paths))


def _start(account: str, relative: Sequence[Path]) -> Path:
    """The directory in which the service starts: this one, if its account can enter it."""
    here = Path.cwd()
    if _reaches(account, here / "it"):
        return here
    if relative:
        raise click.UsageError(
            f"{account} may not enter {here}, where {relative[0]} would be: give whole paths, or"
            " print the unit in another directory."
        )
    return Path(os.sep)


def _to_do(service: Service) -> Iterable[str]:
    """Sentences about accounts and directories that the unit needs and that are not there yet."""
    if _identity(service.account) is None:
        yield f"create the account {service.account}"
    for place in service.writes:
        if not place.exists() and place.parent != _RUN:
            yield f"create {place} and give it to {service.account}"
    for path in (*service.writes, *service.reads):
        if not _reaches(service.account, path):
            yield f"let {service.account} enter each directory above {path}"


def _identity(account: str) -> tuple[int, set[int]] | None:
    """The ids of an account and of its groups, None if there is no such account."""
    import pwd

    try:
        found = pwd.getpwnam(account)
    except KeyError:
        return None
    return found.pw_uid, set(os.getgrouplist(account, found.pw_gid))


def _reaches(account: str, path: Path) -> bool:
    """Whether an account can enter each directory above a path, as far as they are there.

    Root can no more than others: the unit takes its capabilities away.
    """
    own, groups = _identity(account) or (-1, set())
    for folder in path.resolve().parents:
        try:
            found = folder.stat()
        except OSError:
            continue
        if found.st_uid == own:
            may = stat.S_IXUSR
        else:
            may = stat.S_IXGRP if found.st_gid in groups else stat.S_IXOTH
        if not found.st_mode & may:
            return False
    return True


def _is_below(path: Path, *folders: str) -> bool:
    return any(path.is_relative_to(each) for each in folders)


def _quoted(text: str) -> str:
    """One word of a unit: systemd takes away quotes, and reads %; only in a command it reads $."""
    text = text.replace("%", "%%")
    if text and not any(each in " \t\n\"'\\;" for each in text):
        return text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _quoted_path(path: Path) -> str:
    return os.fspath(path).replace("%", "%%")
