"""The page about testing an application: its application and its tests run as they stand there."""

from __future__ import annotations

import pytest

from tests.docs.blocks import python_blocks, ran

pytestmark = pytest.mark.slow


def test_the_examples_of_testing_an_application_pass(tmp_path):
    blocks = python_blocks("docs/how-to/test-an-application.md")
    names = ("orders.py", "test_orders.py", "test_kills.py")
    for name, block in zip(names, blocks, strict=True):
        (tmp_path / name).write_text(block)
    told = ran("pytest", "-q", "-p", "no:cacheprovider", str(tmp_path), cwd=tmp_path)
    assert "4 passed" in told
