"""The server of HTTP for programs holds no body in memory, whichever way it goes."""

from __future__ import annotations

import pytest

from benches.http import QUEUE, HttpClient, highest_memory

SIZE = 192 << 20
GROWTH_MAX = 48 << 20


@pytest.mark.slow
def test_a_body_up_and_down_leaves_memory_constant(client, server, tmp_path):
    assert client.put(f"/v1/queues/{QUEUE}", json={}).status_code == 201
    copies = HttpClient(int(server.base.rpartition(":")[2]), client.token)
    body = tmp_path / "body"
    with body.open("wb") as file:
        file.truncate(SIZE)
    before = highest_memory(server.http_pid())
    copies.send(body)
    copies.receive(tmp_path / "out")
    assert (tmp_path / "out").stat().st_size == SIZE
    assert highest_memory(server.http_pid()) - before < GROWTH_MAX
