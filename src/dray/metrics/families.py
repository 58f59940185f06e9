"""Which metrics there are: one table for the collector and for the page about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from dray.model.queue import ManagerInfo, QueueInfo


class ManagerMetric(NamedTuple):
    """A number of the queue manager. A name that ends in `_total` is a counter, else a gauge."""

    name: str
    help: str
    value: Callable[[ManagerInfo], float | None]
    """None gives no sample."""


class QueueMetric(NamedTuple):
    """A number of each queue, with the labels `queue` and `kind`."""

    name: str
    help: str
    value: Callable[[QueueInfo], float | None]
    """None gives no sample for that queue."""


MANAGER_INFO: Final = "dray_manager_info"
QUEUE_STATE: Final = "dray_queue_state"

OF_THE_MANAGER: Final = (
    ManagerMetric("dray_uptime_seconds", "Seconds since the start.", lambda m: m.uptime),
    ManagerMetric("dray_used_bytes", "Bytes in all queues.", lambda m: m.bytes_used),
    ManagerMetric("dray_quota_bytes", "Most bytes in all queues.", lambda m: m.quota),
    ManagerMetric(
        "dray_journal_used_bytes",
        "Bytes in all journals and dead-letter queues.",
        lambda m: m.journal_bytes_used,
    ),
    ManagerMetric(
        "dray_journal_quota_bytes",
        "Most bytes in all journals and dead-letter queues.",
        lambda m: m.journal_quota,
    ),
    ManagerMetric(
        "dray_disk_free_bytes", "Free bytes for messages on the disk.", lambda m: m.disk_free
    ),
    ManagerMetric(
        "dray_disk_low_water_bytes",
        "Bytes of the disk that messages must leave free.",
        lambda m: m.low_water,
    ),
    ManagerMetric(
        "dray_ahead_bytes",
        "Bytes of large messages that came ahead of their commits.",
        lambda m: m.ahead_bytes,
    ),
    ManagerMetric(
        "dray_express_memory_bytes",
        "Bytes of express messages in memory.",
        lambda m: m.express_in_memory,
    ),
    ManagerMetric("dray_heap_files", "Heap files on the disk.", lambda m: m.heap_files),
    ManagerMetric("dray_syncs_total", "Syncs of the log since the start.", lambda m: m.syncs),
    ManagerMetric(
        "dray_groups_total", "Groups of facts written since the start.", lambda m: m.groups
    ),
    ManagerMetric(
        "dray_checkpoints_total", "Checkpoints written since the start.", lambda m: m.checkpoints
    ),
)
OF_A_QUEUE: Final = (
    QueueMetric("dray_queue_messages", "Messages in the queue.", lambda q: q.message_count),
    QueueMetric("dray_queue_bytes", "Bytes in the queue.", lambda q: q.byte_count),
    QueueMetric("dray_queue_quota_bytes", "Most bytes in the queue.", lambda q: q.quota),
    QueueMetric(
        "dray_queue_journal_messages",
        "Messages in the journal of the queue.",
        lambda q: q.journal_count,
    ),
    QueueMetric(
        "dray_queue_journal_bytes", "Bytes in the journal of the queue.", lambda q: q.journal_bytes
    ),
    QueueMetric(
        "dray_queue_express_messages",
        "Express messages in the queue; a restart loses them.",
        lambda q: q.express_count,
    ),
    QueueMetric(
        "dray_queue_staged_messages",
        "Messages staged for batches of Spark queries.",
        lambda q: q.staged_count,
    ),
    QueueMetric(
        "dray_queue_copies_skipped_total",
        "Copies for which a quota had no room, since the start.",
        lambda q: q.copies_skipped,
    ),
    QueueMetric(
        "dray_outgoing_refused_messages",
        "Messages that the destination has refused since it began to refuse.",
        lambda q: q.delivery.refusal.count if q.delivery and q.delivery.refusal else None,
    ),
)
