"""Real queue managers on disks that others fill: who is told what, and that everything goes on."""

from __future__ import annotations

import pytest

import dray
from dray.model.classes import QueueKind
from dray.testing.processes import ManagerProcess
from tests.integration.commands import until
from tests.integration.small_disk import may_mount, on_small_disk

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not may_mount(), reason="no mount namespaces here: no small disk to fill"),
]
MIB = 1 << 20


def outgoing(manager):
    (info,) = [each for each in manager.queues() if each.kind is QueueKind.OUTGOING]
    return manager.queue(info.name).info()


def test_a_full_destination_tells_its_source_when_others_have_made_room(tmp_path):
    """R61, of a disk. By its schedule the source would try again after half a minute."""
    with (
        on_small_disk(tmp_path, 'low_water = "8 MiB"\n') as disk,
        ManagerProcess("source", tmp_path) as source,
        dray.connect(disk.url) as there,
        source.connect() as here,
    ):
        landing = there.create_queue("landing")
        disk.fill(8 * MIB)
        bodies = [b"%d" % each + bytes(MIB) for each in range(3)]
        here.queue(f"{disk.url}/landing").send_many(bodies)
        refusal = until(lambda: outgoing(here).delivery.refusal)
        assert refusal.code == "store-full"
        assert (outgoing(here).message_count, landing.info().message_count) == (3, 0)
        resends = outgoing(here).delivery.resends
        disk.make_room()
        got = [bytes(landing.receive(timeout=100).body) for _ in bodies]
        assert got == bodies
        until(lambda: outgoing(here).message_count == 0)
        assert outgoing(here).delivery.resends == resends, "it did not wait for its schedule"


def test_a_disk_filled_to_the_last_byte_lets_everything_out_and_nothing_in(tmp_path):
    with (
        on_small_disk(tmp_path, "low_water = 0\n", log_bytes=1 << 16) as disk,
        dray.connect(disk.url) as manager,
    ):
        orders = manager.create_queue("orders")
        sent = [b"%0100d" % each for each in range(2_000)]
        for first in range(0, len(sent), 100):
            orders.send_many(sent[first : first + 100])
        disk.fill()
        with pytest.raises(dray.StoreFull, match="must stay free"):
            orders.send(bytes(MIB))
        got = []
        while len(got) < len(sent):
            got += [bytes(each.body) for each in orders.receive_many(50, timeout=100)]
        assert got == sent
        disk.make_room()
        orders.send(b"again")
        assert bytes(orders.receive(timeout=100).body) == b"again"


def test_a_target_on_a_full_disk_is_told_in_one_sentence_and_nothing_stays_there(tmp_path):
    with (
        on_small_disk(tmp_path, "low_water = 0\n") as disk,
        ManagerProcess("elsewhere", tmp_path) as elsewhere,
        elsewhere.connect() as manager,
    ):
        body = bytes(range(256)) * (MIB // 64)
        large = dray.LargeMessageQueue(manager.create_queue("heavy"))
        large.send(body)
        disk.fill()
        with (
            pytest.raises(dray.TargetUnwritable, match="No space left"),
            large.receive(timeout=100) as message,
        ):
            message.save_to(disk.folder / "out.bin")
        assert [path.name for path in disk.folder.iterdir() if "out.bin" in path.name] == []
        with large.receive(timeout=100) as message:
            assert message.body() == body
