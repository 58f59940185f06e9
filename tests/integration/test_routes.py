"""Three queue managers on real sockets, of which the middle one forwards."""

from __future__ import annotations

import socket

import pytest

import dray


def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.slow
def test_a_message_goes_over_the_manager_that_its_route_names(tmp_path):
    goal_at, middle_at = free_address(), free_address()
    with (
        dray.open(tmp_path / "goal", listen=goal_at, open=True) as goal,
        dray.open(tmp_path / "middle", listen=middle_at, open=True) as middle,
        dray.open(tmp_path / "source", routes={goal_at: middle_at}) as source,
    ):
        orders = goal.create_queue("orders")
        source.queue(f"dray://{goal_at}/orders").send(b"over the middle")
        assert bytes(orders.receive(timeout=20).body) == b"over the middle"
        names = [
            [queue.name for queue in each.info().outgoing_queues] for each in (source, middle, goal)
        ]
        assert names == [[f"dray://{goal_at}/orders"]] * 2 + [[]]
