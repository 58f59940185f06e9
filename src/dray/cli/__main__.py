"""`python -m dray.cli` is the program `dray`."""

from __future__ import annotations

from dray.cli import main

main()
