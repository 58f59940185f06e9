"""`python -m dray.cli` is the program `dray`."""

from __future__ import annotations

from dray_program import main

main()
