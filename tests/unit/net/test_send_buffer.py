"""A larger send buffer is asked for only where the kernel gives one that way."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dray.net import send_buffer

ASKED_BYTES = 200_000
"""What any machine gives who asks."""
GrowsTo = Callable[[object], None]


@pytest.fixture
def grows_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GrowsTo]:
    """Say to how much the kernel would let a send buffer grow by itself."""

    def say(most: object) -> None:
        (tmp_path / "tcp_wmem").write_text(f"4096\t16384\t{most}\n")
        monkeypatch.setattr(send_buffer, "_GROWS_TO", tmp_path / "tcp_wmem")
        send_buffer._way_to.cache_clear()

    yield say
    send_buffer._way_to.cache_clear()


def sizes(asked_bytes: int = ASKED_BYTES) -> tuple[int, int]:
    """Of a buffer before and after it was widened."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        before = sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
        send_buffer.widen(sock, asked_bytes)
        return before, sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_a_buffer_holds_what_was_asked_for_if_it_would_not_grow_so_far(grows_to: GrowsTo) -> None:
    grows_to(16_384)
    assert sizes()[1] == 2 * ASKED_BYTES


def test_who_may_not_have_it_his_way_gets_what_everyone_gets(
    grows_to: GrowsTo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_buffer, "_FORCED", 12_345)  # no socket has such an option
    grows_to(16_384)
    assert sizes()[1] == 2 * ASKED_BYTES


@pytest.mark.parametrize("most", [1 << 40, "nothing that is a number"])
def test_a_buffer_that_grows_further_by_itself_is_left_alone(
    grows_to: GrowsTo, most: object
) -> None:
    grows_to(most)
    before, after = sizes()
    assert before == after


def test_where_the_kernel_does_not_say_a_buffer_is_left_alone(
    grows_to: GrowsTo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grows_to(0)
    monkeypatch.setattr(send_buffer, "_GROWS_TO", tmp_path / "there is none")
    before, after = sizes()
    assert before == after
