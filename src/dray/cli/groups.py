"""Groups of commands, such as `dray queue`: their help tells each one in a whole sentence.

Click's own groups cut the sentence where the line ends.
"""

from __future__ import annotations

import click

_CHARACTERS_MAX = 1000
"""Characters of the help sentence that are shown: all of them."""


class CommandGroup(click.Group):
    """A group that lists each command with the first sentence of its help."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands in the order of their names."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(_CHARACTERS_MAX))
                    for name, command in commands
                    if command is not None
                ]
            )
