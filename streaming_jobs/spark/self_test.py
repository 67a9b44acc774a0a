"""Says in one line, before anything is routed, when this Spark, these jars and this Java do not belong together.

The jars are a mixed set (gateway/local/jars.yaml): what does not fit would show only inside a running query, as a
missing method somewhere in the JVM.
"""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

from gateway.core.errors import SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TESTED_SPARK = "4.3.0"
_NEEDED = (
    "org.apache.spark.sql.kafka010.KafkaSourceProvider",
    "org.apache.spark.sql.kafka010.KafkaMicroBatchStream",
    "org.apache.spark.kafka010.KafkaTokenUtil",
    "org.apache.kafka.clients.consumer.KafkaConsumer",
    "org.apache.kafka.clients.producer.KafkaProducer",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool",
    "org.rocksdb.RocksDB",
)


def self_test(spark: SparkSession) -> None:
    """Raises SetupError."""
    installed = metadata.version("pyspark")
    if spark.version != TESTED_SPARK or installed != TESTED_SPARK:
        raise SetupError(
            f"Spark {spark.version} with pyspark {installed}, but the connector jars were chosen for {TESTED_SPARK}:"
            f" pip install pyspark=={TESTED_SPARK}"
        )
    loader = spark._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr]  # noqa: SLF001 - the one way in
    for name in _NEEDED:
        try:
            loader.classForName(name, True, False)
        except Exception as error:
            java = spark._jvm.java.lang.System.getProperty("java.version")  # type: ignore[union-attr]  # noqa: SLF001
            raise SetupError(
                f"Spark {spark.version} on Java {java} cannot load {name}: remove the jars in the cache folder"
                " (MESHGATE_CACHE, else ~/.cache/meshgate) and start again"
            ) from error
