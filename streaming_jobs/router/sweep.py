"""Old buckets leave the dedup's state in whole ranges.

Spark's own eviction walks over every row of the state at the end of each batch, and nothing passes meanwhile: 0.35 µs a
row and 1.5 to take one out. A mesh with 1,000 new ids a second would stand still for most of a second each minute and
for three whenever a bucket ends, one with 10,000 for ten times as long. But the rows of a bucket lie side by side, its
start being the first part of their key, and RocksDB takes a range out at once. Where the state lives in this process'
JVM (a `local` master) it is asked to do so, and Spark evicts nothing. The state of an executor is out of reach: there
Spark does it (see `plan.first_of_each`).

What goes is what Spark would evict: buckets that begin before the watermark of a committed batch. Spark's change log
does not know of it, so a restart may bring some of it back; the next sweep takes it out again.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from gateway.event import SECOND_US

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

STORES = "org.apache.spark.sql.execution.streaming.state.StateStore$"
ROWS = "rocksdb.estimate-num-keys"
_BUCKET = struct.Struct("<9xq")
"""How a key begins: the encoding's version, the row's null bits, and the bucket's start in microseconds."""


def is_within_reach(spark: SparkSession) -> bool:
    return (spark.sparkContext.master or "").startswith("local")


class Sweep:
    """Only by the thread that stops and starts the query, and only while that is at work after a commit: a database
    that Spark closes meanwhile would take the JVM with it. That of an earlier run it closes at any time."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm  # noqa: SLF001 - the one way to ask it

    def run(self, query: StreamingQuery, watermark_seconds: int) -> int:
        """The rows that are left, as RocksDB guesses them: it counts what is gone until it comes by."""
        return sum(self._sweep(database, watermark_seconds) for database in self.databases(query))

    def databases(self, query: StreamingQuery) -> Iterator[Any]:
        """Those of its state, one a partition."""
        loaded = _field(self._stores, "loadedProviders", None)
        ids = loaded.keys().toList()
        for provider_id in (ids.apply(number) for number in range(ids.size())):
            if provider_id.queryRunId().toString() == str(query.runId):
                store = loaded.apply(provider_id).rocksDB()
                if (database := _field(store.getClass(), "db", store)) is not None:
                    yield database

    def _sweep(self, database: Any, watermark_seconds: int) -> int:
        """A walk from bucket to bucket, not from row to row. Whole files go at once; nothing is compacted, which would
        take a second for each million rows."""
        rows = database.newIterator()
        try:
            rows.seekToFirst()
            while rows.isValid():
                begin, start = _bucket(bytes(rows.key()))
                end = _next(begin)
                if start < watermark_seconds * SECOND_US:
                    database.deleteRange(begin, end)
                    ends = self._jvm.java.util.List.of(begin, end)
                    database.deleteFilesInRanges(database.getDefaultColumnFamily(), ends, False)
                rows.seek(end)
        finally:
            rows.close()
        return int(database.getLongProperty(ROWS))

    @property
    def _stores(self) -> Any:
        """Of the context's class loader: the gateway's own knows Spark only by name."""
        loader = self._jvm.java.lang.Thread.currentThread().getContextClassLoader()
        return self._jvm.java.lang.Class.forName(STORES, True, loader)


def _bucket(key: bytes) -> tuple[bytes, int]:
    """What all keys of a bucket begin with, and its start.

    >>> _bucket(bytes(9) + (1_200_000_000).to_bytes(8, "little") + b"...")[1]
    1200000000
    """
    begin = key[: _BUCKET.size]
    start: int = _BUCKET.unpack(begin)[0]
    if any(key[:9]) or start < 0 or start % SECOND_US:
        raise ValueError(f"a key of the dedup's state is not as this Spark's were: {key.hex()}")
    return begin, start


def _next(begin: bytes) -> bytes:
    """The least key after all that begin so.

    >>> _next(b"\\0\\xff")
    b'\\x01\\x00'
    """
    return (int.from_bytes(begin, "big") + 1).to_bytes(len(begin), "big")


def _field(of: Any, name: str, thing: Any) -> Any:
    field = of.getDeclaredField(name)
    field.setAccessible(True)
    return field.get(thing)
