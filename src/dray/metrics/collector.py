"""Collects the metrics of one queue manager when somebody asks for them; it keeps none.

Which metrics there are is one table, for the collector and for the page about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dray.model.classes import QueueKind
from dray.model.queue import ManagerInfo, QueueInfo

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOTAL: Final = "_total"
_Seen = TypeVar("_Seen", ManagerInfo, QueueInfo)


def exposition(info: ManagerInfo, queues: list[QueueInfo]) -> bytes:
    """The metrics of a moment in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_OfTheManager(info))
    # A million objects of the library for 100,000 queues would hold up all threads for seconds.
    return generate_latest(registry) + "".join(_of_queues(queues)).encode()


class _OfTheManager:
    """One collection."""

    def __init__(self, info: ManagerInfo) -> None:
        self._info = info

    def describe(self) -> list[Metric]:
        """Nothing is known beforehand."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Give each family with its samples."""
        info = self._info
        about = GaugeMetricFamily(MANAGER_INFO, "Always 1.", labels=["id", "name", "version"])
        about.add_metric([info.id, info.name, info.version], 1)
        yield about
        for of_all in OF_THE_MANAGER:
            value = of_all.value(info)
            if value is not None:
                family = _family(of_all.name, of_all.help)
                family.add_metric([], value)
                yield family


def _of_queues(queues: list[QueueInfo]) -> Iterator[str]:
    """The families of queues, line by line."""
    labels = [f'queue="{_escaped(each.name)}",kind="{each.kind}"' for each in queues]
    yield _head(QUEUE_STATE, "1 for the state of the queue.")
    for queue, own in zip(queues, labels, strict=True):
        yield f'{QUEUE_STATE}{{{own},state="{_escaped(queue.state)}"}} 1.0\n'
    for family in OF_A_QUEUE:
        yield _head(family.name, family.help)
        for queue, own in zip(queues, labels, strict=True):
            value = family.value(queue)
            if value is not None:
                yield f"{family.name}{{{own}}} {float(value)!r}\n"


def _head(name: str, text: str) -> str:
    kind = "counter" if name.endswith(_TOTAL) else "gauge"
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def _escaped(value: str) -> str:
    """A value of a label, between its quotes."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _family(name: str, text: str) -> CounterMetricFamily | GaugeMetricFamily:
    if name.endswith(_TOTAL):
        return CounterMetricFamily(name.removesuffix(_TOTAL), text)
    return GaugeMetricFamily(name, text)


class MetricFamily(NamedTuple, Generic[_Seen]):
    """A number of the queue manager, or of each queue, with the labels `queue` and `kind`.

    A name that ends in `_total` is a counter, else a gauge.
    """

    name: str
    help: str
    value: Callable[[_Seen], float | None]
    """None gives no sample."""


MANAGER_INFO: Final = "dray_manager_info"
QUEUE_STATE: Final = "dray_queue_state"

OF_THE_MANAGER: Final[tuple[MetricFamily[ManagerInfo], ...]] = (
    MetricFamily("dray_uptime_seconds", "Seconds since the start.", lambda m: m.uptime),
    MetricFamily(
        "dray_used_bytes", "Bytes in all queues and their journals.", lambda m: m.bytes_used
    ),
    MetricFamily(
        "dray_quota_bytes", "Most bytes in all queues and their journals.", lambda m: m.quota
    ),
    MetricFamily(
        "dray_journal_used_bytes",
        "Bytes in the source journal and the dead-letter queues.",
        lambda m: m.journal_bytes_used,
    ),
    MetricFamily(
        "dray_journal_quota_bytes",
        "Most bytes in the source journal and the dead-letter queues.",
        lambda m: m.journal_quota,
    ),
    MetricFamily(
        "dray_disk_free_bytes", "Free bytes for messages on the disk.", lambda m: m.disk_free
    ),
    MetricFamily(
        "dray_disk_low_water_bytes",
        "Bytes of the disk that messages must leave free.",
        lambda m: m.low_water,
    ),
    MetricFamily(
        "dray_ahead_bytes",
        "Bytes of large messages that came ahead of their commits.",
        lambda m: m.ahead_bytes,
    ),
    MetricFamily(
        "dray_express_memory_bytes",
        "Bytes of express messages in memory.",
        lambda m: m.express_in_memory,
    ),
    MetricFamily("dray_heap_files", "Heap files on the disk.", lambda m: m.heap_files),
    MetricFamily("dray_syncs_total", "Syncs of the log since the start.", lambda m: m.syncs),
    MetricFamily(
        "dray_groups_total", "Groups of facts written since the start.", lambda m: m.groups
    ),
    MetricFamily(
        "dray_checkpoints_total", "Checkpoints written since the start.", lambda m: m.checkpoints
    ),
)
OF_A_QUEUE: Final[tuple[MetricFamily[QueueInfo], ...]] = (
    MetricFamily("dray_queue_messages", "Messages in the queue.", lambda q: q.message_count),
    MetricFamily("dray_queue_bytes", "Bytes in the queue.", lambda q: q.byte_count),
    MetricFamily("dray_queue_quota_bytes", "Most bytes in the queue.", lambda q: q.quota),
    MetricFamily(
        "dray_queue_journal_messages",
        "Messages in the journal of the queue.",
        lambda q: q.journal_count,
    ),
    MetricFamily(
        "dray_queue_journal_bytes", "Bytes in the journal of the queue.", lambda q: q.journal_bytes
    ),
    MetricFamily(
        "dray_queue_express_messages",
        "Express messages in the queue; a restart loses them.",
        lambda q: q.express_count,
    ),
    MetricFamily(
        "dray_queue_staged_messages",
        "Messages staged for batches of Spark queries.",
        lambda q: q.staged_count,
    ),
    MetricFamily(
        "dray_queue_copies_skipped_total",
        "Copies for which a quota had no room, since the start; those for its journal, too.",
        lambda q: None if q.kind is QueueKind.JOURNAL else q.copies_skipped,
    ),
    MetricFamily(
        "dray_outgoing_refused_messages",
        "Messages that the destination has refused since it began to refuse.",
        lambda q: q.delivery.refusal.count if q.delivery and q.delivery.refusal else None,
    ),
)
