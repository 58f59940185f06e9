"""Promises about files and sockets that are open."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from dray.daemon.sockets import descriptors
from dray.daemon.sockets.descriptors import DESCRIPTORS_KEPT, sessions_max
from dray.model.limits import SESSIONS_MAX


@pytest.mark.parametrize(
    ("soft", "most"),
    [
        (1024, 1024 - DESCRIPTORS_KEPT),
        (resource.RLIM_INFINITY, SESSIONS_MAX),
        (1 << 20, SESSIONS_MAX),
        (64, 64 - DESCRIPTORS_KEPT),
    ],
)
def test_callers_never_get_what_the_store_needs(monkeypatch, soft, most):
    monkeypatch.setattr(descriptors.resource, "getrlimit", lambda _: (soft, soft))
    assert sessions_max() == most


def _raised(soft: int, hard: int) -> str:
    program = (
        "import resource; from dray.daemon.sockets.descriptors import raise_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}));"
        "raise_limit(); print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    return done.stdout.strip() or done.stderr


@pytest.mark.slow
def test_a_daemon_takes_what_the_system_allows_and_refuses_to_start_with_too_little():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = 4096 if hard == resource.RLIM_INFINITY else min(hard, 4096)
    assert _raised(256, allowed) == f"{allowed}"
    assert "InvalidConfiguration" in _raised(64, 128)
    assert "ulimit -n" in _raised(64, 128)
