"""Collects the metrics of one queue manager when somebody asks for them; it keeps none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from dray.metrics.families import MANAGER_INFO, OF_A_QUEUE, OF_THE_MANAGER, QUEUE_STATE
from dray.model.queue import ManagerInfo, QueueInfo

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_TOTAL: Final = "_total"


def exposition(info: ManagerInfo, queues: list[QueueInfo]) -> bytes:
    """The metrics of a moment in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Moment(info, queues))
    return generate_latest(registry)


class _Moment:
    """One collection."""

    def __init__(self, info: ManagerInfo, queues: list[QueueInfo]) -> None:
        self._info = info
        self._queues = queues

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
                family = _family(of_all.name, of_all.help, [])
                family.add_metric([], value)
                yield family
        states = GaugeMetricFamily(
            QUEUE_STATE, "1 for the state of the queue.", labels=["queue", "kind", "state"]
        )
        for queue in self._queues:
            states.add_metric([queue.name, str(queue.kind), queue.state], 1)
        yield states
        for of_one in OF_A_QUEUE:
            family = _family(of_one.name, of_one.help, ["queue", "kind"])
            for queue in self._queues:
                value = of_one.value(queue)
                if value is not None:
                    family.add_metric([queue.name, str(queue.kind)], value)
            yield family


def _family(name: str, text: str, labels: list[str]) -> CounterMetricFamily | GaugeMetricFamily:
    if name.endswith(_TOTAL):
        return CounterMetricFamily(name.removesuffix(_TOTAL), text, labels=labels)
    return GaugeMetricFamily(name, text, labels=labels)
