"""The command line: `dray` and one small module per noun.

`main` is the program, which `dray_program` starts. It answers `--version` by itself and leaves
everything else to `dray.cli.program`, which loads only the command that was asked for.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

TYPE_CHECKING = False  # typing itself takes as long to load as everything before it


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process with its exit status."""
    _open_what_is_closed()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["--version"]:
        from dray import __version__

        sys.stdout.write(f"dray {__version__}\n")
        sys.exit(0)
    from dray.cli.program import run

    # An interrupt may come between the making of a coroutine and its start: nothing was lost.
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    sys.exit(run(given))


def _open_what_is_closed() -> None:
    """Open standard streams that the caller closed on /dev/null.

    Otherwise the next socket would take their descriptor, and `sys.stdout` would be None.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            import os
            from pathlib import Path

            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - for ever
            setattr(sys, name, stream)
