"""Rights at queues by number and by name."""

from __future__ import annotations

from dray.manager.rights.queues import host_of, not_found
from dray.model.names import parse_queue_address
from dray.wire import queue_frames
from tests.unit.manager.rights.test_table import ADA, allowing, driver_with, refused


def test_the_host_of_an_outgoing_queue_is_named_with_its_port():
    assert host_of(parse_queue_address("drays://Depot/orders")) == "depot:7340"


def test_a_hidden_queue_is_refused_in_the_words_of_a_missing_one(tmp_path):
    ada = driver_with(tmp_path, allowing("user:ada", "send", "orders")).session(ADA)
    hidden = refused(ada, queue_frames.DescribeQueue("secrets"))
    missing = refused(ada, queue_frames.DescribeQueue("nothing"))
    assert str(hidden).replace("secrets", "nothing") == str(missing) == str(not_found("nothing"))
