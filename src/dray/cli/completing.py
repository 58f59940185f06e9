"""Completes names of queues on a command line, from the queue manager that the line speaks to."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from dray.errors import DrayError
from dray.model.classes import QueueKind

_NAMES = frozenset({"queue", "name", "source", "target", "outgoing"})
"""Arguments of commands that are names of queues."""
_GROUPS_OF_OTHER_NAMES = frozenset({"cert", "token", "access", "inspect", "peer"})


class QueueNameText(click.ParamType[str]):
    """The name of a queue."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Take any text; the queue manager says what it thinks of it."""
        del param, ctx
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The queues whose names begin so; none if no queue manager answers."""
        del param
        from dray.cli.settings import Settings

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
