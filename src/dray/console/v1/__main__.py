"""Runs the server of `/v1`: the arguments are the manager's URL, an address, and a Unix socket."""

from __future__ import annotations

import sys

from dray.console.v1.serving import main
from dray.errors import DrayError

if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:4]))
    except DrayError as error:
        sys.stderr.write(f"dray: {error.code}: {error}\n")
        sys.exit(error.exit_status)
