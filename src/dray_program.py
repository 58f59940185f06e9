"""The program `dray` before any of its modules is loaded: an interrupt is one line from here on.

Loading them takes a quarter of a second, on a busy machine more: time enough for a second thought.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing itself takes as long to load as everything before it
if TYPE_CHECKING:
    from typing import NoReturn

EXIT_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and end the process with its exit status."""
    try:
        from dray.cli import main as command_line

        command_line()
    except KeyboardInterrupt as interrupt:
        # While modules were still being loaded, or from a command, which may say what was done.
        told = "; ".join(["interrupted", *getattr(interrupt, "__notes__", ())])
        sys.stderr.write(f"dray: {told}\n")
        sys.exit(EXIT_INTERRUPTED)
