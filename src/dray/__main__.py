"""`python -m dray` is the program `dray`."""

from __future__ import annotations

from dray_program import main

main()
