"""The test application of the sample: send and receive a file, plainly and as a large message."""

from __future__ import annotations

from dray.console.console import Tab
from dray.console.sample.page import routes

__all__ = ["routes", "tabs"]

tabs = [Tab("/sample", "Sample")]
