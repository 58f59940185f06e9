"""`python -m tests.worlds`: seeded worlds for a while, and how many a minute."""

from __future__ import annotations

from tests.worlds.rates import main

if __name__ == "__main__":
    raise SystemExit(main())
