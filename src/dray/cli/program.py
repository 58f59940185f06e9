"""The program's commands and its exit.

One table names the commands; their modules load on demand, so `dray send` does not wait for the
imports of `dray demo`. Every end has one place: an error becomes one line on standard error, `dray:
<code>: <sentence>`, and the exit status of its class; a usage error ends with 2. An
interrupt leaves here as `KeyboardInterrupt`; `dray_program` reports it and ends with 130.
"""

from __future__ import annotations

import difflib
import importlib
import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from dray import __version__
from dray.cli.settings import Settings
from dray.errors import DrayError, TargetUnwritable
from dray.model.classes import QueueKind

EXIT_USAGE = 2
EXIT_BROKEN_PIPE = 141
"""128 + SIGPIPE: what a shell reports of a program whose reader went away."""

COMMANDS: dict[str, str] = {
    "serve": "Run a queue manager until it is told to stop.",
    "config": "Write or check a file of options.",
    "access": "Explain what a caller may do.",
    "token": "Create, list and revoke tokens of callers.",
    "cert": "Make an authority, and certificates for mutual TLS.",
    "doctor": "Say why messages do not move, and what to do.",
    "info": "Show the state of the queue manager.",
    "console": "Show queues, dead letters and deliveries in a browser.",
    "top": "Show depths, rates and ages of the queues on one screen.",
    "queue": "Create, list, show, change, delete and purge queues.",
    "send": "Send files or standard input to a queue, in one transaction.",
    "watch": "Send each file that appears in a folder, once, until told to stop.",
    "verify": "Compare a directory with the manifest of the run that sent its files.",
    "upload": "List and drop large messages that were sent in part.",
    "receive": "Take messages from a queue, each only once it is safe.",
    "transaction": "Tell what became of a send or commit in doubt; settle prepared transactions.",
    "peek": "Look at messages without taking them.",
    "move": "Move messages from one queue to another.",
    "show": "Show one message of a queue, its properties or its body.",
    "outgoing": "List, pause and resume outgoing queues; resolve one that has diverged.",
    "peer": "Show the queue managers that this one delivers to; accept or forget one.",
    "journal": "Look at journals: copies of what was received, and of what was sent.",
    "deadletter": "List what could not be delivered, and why; send it again, save or drop it.",
    "transfer": "Offer files to programs that take them while both run.",
    "storage": "Move a store, see what others did to it, mend its files of queues.",
    "backup": "Write everything a queue manager has to one file.",
    "restore": "Make a data directory from a backup.",
    "check": "Check every checksum of a data directory.",
    "inspect": "Look into a data directory: log, heap file, queue, one message's story.",
    "spark": "Land what is in queues with Spark.",
    "torture": "Prove here that nothing is lost: simulated failures, then real kills.",
    "completion": "Print a script by which a shell completes commands and queues.",
    "service": "Print a systemd unit that runs a command as a service.",
    "demo": "Move real files between two queue managers, through a kill, into Spark.",
}
_NAMES = frozenset({"queue", "name", "source", "target", "outgoing"})
"""Arguments of commands that are names of queues."""
_GROUPS_OF_OTHER_NAMES = frozenset({"cert", "token", "access", "inspect", "peer"})


class LazyCommands(click.Group):
    """A group whose commands are modules of `commands`, loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order in which people need them."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, loaded now; None if there is none of that name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"dray.cli.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        complete_queue_names(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a name that is none, say which ones are like it."""
        name = args[0]
        if name not in COMMANDS and not ctx.resilient_parsing and not name.startswith("-"):
            like = difflib.get_close_matches(name, COMMANDS)
            hint = f" Did you mean {' or '.join(map(repr, like))}?" if like else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command from the table, without loading them."""
        found = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        # A group completes its own options beside its commands; here the table has the commands.
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, without loading them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dray", message="%(prog)s %(version)s")
@click.option(
    "--url",
    envvar="DRAY_URL",
    show_envvar=True,
    metavar="URL",
    help="Queue manager to connect to  [default: the one that runs here].",
)
@click.option(
    "--token-file",
    type=click.Path(),
    help="File with the token to show, which only you can open  [default: that of DRAY_TOKEN].",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
@click.option("--ca", metavar="FILE.pem", help="Authorities to trust at drays://  [env: DRAY_CA].")
@click.option("--cert", metavar="FILE.pem", help="Certificate to present  [env: DRAY_CERT].")
@click.option("--key", metavar="FILE.pem", help="Key of the certificate  [env: DRAY_KEY].")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Log to standard error from this level on  [default: warning].",
)
@click.pass_context
def program(
    context: click.Context,
    url: str | None,
    *,
    as_json: bool,
    ca: str | None,
    cert: str | None,
    key: str | None,
    token_file: str | None,
    log_level: str | None,
) -> None:
    """Move payloads of any size between machines, exactly once and in order."""
    settings = Settings(
        as_json=as_json, ca=ca, cert=cert, key=key, token_file=token_file, log_level=log_level
    )
    if log_level is not None:
        logging.basicConfig(format="dray: %(levelname)s: %(name)s: %(message)s")
        logging.getLogger("dray").setLevel(log_level.upper())
    if url:
        settings.url = url
    context.obj = settings


def run(arguments: Sequence[str]) -> int:
    """Run one command; give its exit status. `dray_program` reports a `KeyboardInterrupt`."""
    _escape_what_cannot_be_shown()
    try:
        status = program.main(args=list(arguments), prog_name="dray", standalone_mode=False)
        sys.stdout.flush()
    except DrayError as error:
        click.echo(one_line(error), err=True)
        return error.exit_status
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
    except click.Abort as aborted:
        interrupt = KeyboardInterrupt()
        for note in getattr(aborted.__cause__, "__notes__", ()):
            interrupt.add_note(note)
        raise interrupt from aborted
    except BrokenPipeError:
        _forget_standard_output()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        # Errors of files and sockets are translated where they are used; our own output is left.
        _forget_standard_output()
        unwritable = TargetUnwritable(
            f"the output cannot be written: {error.strerror or error}; free room or redirect it",
            path="-",
        )
        click.echo(one_line(unwritable), err=True)
        return unwritable.exit_status
    return status if isinstance(status, int) else 0


def one_line(error: DrayError) -> str:
    """An error as people see it: never more than one line."""
    return f"dray: {error.code}: {' '.join(str(error).split())}"


def _escape_what_cannot_be_shown() -> None:
    """Escape characters that a terminal cannot show, and bytes of names that are no UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        with suppress(OSError):  # of a stream that stands in for another one
            sys.stdout.reconfigure(errors="backslashreplace")


def _forget_standard_output() -> None:
    """Keep the interpreter from failing again when it flushes at its end."""
    output = sys.stdout.fileno()
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, output)
    os.close(null)


class QueueNameText(click.types.StringParamType):
    """The name of a queue: any text; the queue manager says what it thinks of it."""

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The queues whose names begin so; none if no queue manager answers."""
        del param
        settings = Settings()
        for context in _up(ctx):
            settings.url = context.params.get("url") or settings.url
        try:
            with settings.connect() as manager:
                queues = manager.queues()
        except DrayError:
            # A shell that completes has nowhere to show an error.
            return []
        names = (each.name for each in queues if each.kind is not QueueKind.SYSTEM)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_queue_names(command: click.Command) -> None:
    """Let each argument that names a queue complete, of a command or of those of a group."""
    if command.name in _GROUPS_OF_OTHER_NAMES:
        return
    for each in (command, *(command.commands.values() if isinstance(command, click.Group) else ())):
        for parameter in each.params:
            is_name = isinstance(parameter, click.Argument) and parameter.name in _NAMES
            if is_name and parameter.type is click.STRING:
                parameter.type = QueueNameText()


def _up(context: click.Context | None) -> Iterator[click.Context]:
    """A context and those around it, the outermost first."""
    if context is not None:
        yield from _up(context.parent)
        yield context
