"""Memory and garbage collection of Spark's JVM, under the names its own exporters use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Memory(NamedTuple):
    used: int
    committed: int
    most: int


_MEMORY = (
    ("used", "Memory in use"),
    ("committed", "Memory the JVM has from the system"),
    ("max", "The most it may take; -1: no limit"),
)


class JvmMetrics(Collector):
    """The JVM's metrics. The observer samples them, not the scrape: a JVM that hangs would hang its exporter too."""

    def __init__(self) -> None:
        self._memory: dict[str, Memory] = {}
        self._collections: dict[str, tuple[int, float]] = {}
        self._threads: int | None = None

    def sample(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm  # noqa: SLF001 - the one way to ask it
        beans = jvm.java.lang.management.ManagementFactory
        memory = beans.getMemoryMXBean()
        self._memory = {
            "heap": _memory(memory.getHeapMemoryUsage()),
            "nonheap": _memory(memory.getNonHeapMemoryUsage()),
        }
        self._collections = {
            bean.getName(): (bean.getCollectionCount(), bean.getCollectionTime() / 1000)
            for bean in beans.getGarbageCollectorMXBeans()
        }
        self._threads = beans.getThreadMXBean().getThreadCount()

    def collect(self) -> Iterator[Metric]:
        for place, (name, text) in enumerate(_MEMORY):
            family = GaugeMetricFamily(f"jvm_memory_{name}_bytes", text, labels=("area",))
            for area, memory in self._memory.items():
                family.add_metric([area], memory[place])
            yield family
        pauses = SummaryMetricFamily("jvm_gc_collection_seconds", "Time in garbage collection", labels=("gc",))
        for collector, (count, seconds) in self._collections.items():
            pauses.add_metric([collector], count, seconds)
        yield pauses
        threads = GaugeMetricFamily("jvm_threads_current", "Threads of the JVM", value=self._threads)
        yield threads


def _memory(usage: Any) -> Memory:
    return Memory(usage.getUsed(), usage.getCommitted(), usage.getMax())
