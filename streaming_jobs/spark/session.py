"""Starts Spark: a JVM of our own command, so that any Java will do and its flags are ours, and a session on top of it.

pyspark's launcher asks for a JVM module that slim runtimes lack; its protocol with the JVM is three environment
variables, which is all that is used here.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.core.errors import SetupError
from gateway.local.class_archive import ClassArchive
from gateway.local.jars import ensure_jars
from gateway.local.java import COMPILES_EARLY, LOCALE, Java, find_java
from gateway.local.spark_files import spark_home, spark_jars
from streaming_jobs.spark.jvm_process import SparkJvm
from streaming_jobs.spark.scratch import scratch_folder

if TYPE_CHECKING:
    from socketserver import BaseServer

    from pyspark.sql import SparkSession

JVM_START_SECONDS = 60
SUBMIT = "org.apache.spark.deploy.SparkSubmit"
GATEWAY = "org.apache.spark.api.python.PythonGatewayServer"
"""SparkSubmit runs this for Python in the end, after a second of looking for what it should do."""
_OPENED = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
    "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs",
    "sun.security.action", "sun.util.calendar",
)  # fmt: skip

# Real-time mode is outside upstream's promise with Python functions (they are not on its list of operators), hence the
# switched-off check and the test that kills it under load. The waits and buffers are set for latency: one record, one
# trip through Python, no batching on the way.
STREAMING = {
    "spark.sql.streaming.realTimeMode.allowlistCheck": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop's own starts the program `chmod` for every file and folder of a checkpoint: four fifths of a commit's time.
    "spark.hadoop.fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # Nothing goes back further than the last commit. Spark would keep what a hundred batches each added to the state,
    # more than a gigabyte at 10,000 frames a second.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # A first batch that was never committed leaves state files behind; a start without a commit goes past them.
    "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
    # At the start of each batch Spark writes the plan down for a page that nobody sees. This is its shortest form.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.execution.python.udf.maxRecordsPerBatch": "1",
    "spark.python.udf.pipelined.enabled": "true",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "streaming_jobs.router_job.worker_daemon",
    "spark.buffer.size": "64",
}
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
}
# What runs for a person who waits is over before the JVM's second compiler has paid off. (For the router it has, after
# some ten seconds: its JVM then takes half the time a frame.)
BRIEF_JVM = ("-XX:TieredStopAtLevel=1",)
_LOG = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.json')}"
"""Errors only, in lines as ours."""
LOOPBACK = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
_GATEWAY_PORT = "PYSPARK_GATEWAY_PORT"
"""Stands in the environment when spark-submit has started the JVM, and then us."""
_GATEWAY_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105 - a variable's name


@dataclass(slots=True)
class _Launch:
    """A JVM that is on its way up. It writes into `told` where its gateway listens."""

    jvm: SparkJvm
    archive: ClassArchive
    folder: tempfile.TemporaryDirectory[str]

    @property
    def told(self) -> Path:
        return Path(self.folder.name, "gateway")

    def wait(self) -> None:
        """Waits until the gateway listens, and tells pyspark by environment where."""
        deadline = time.monotonic() + JVM_START_SECONDS
        while not self.told.exists():
            if (code := self.jvm.exit_code) is not None or time.monotonic() > deadline:
                raise SetupError(f"Spark's JVM did not start (exit code {code})")
            time.sleep(0.02)
        _read_gateway(self.told.read_bytes())
        self.folder.cleanup()
        self.jvm.watch()


_launches: list[_Launch] = []
"""At most one, which the next `start_spark` takes."""
_running: list[_Launch] = []


def begin_jvm(master: str, *, jvm_options: Iterable[str] = COMPILES_EARLY, lists_classes: bool = False) -> None:
    """Begins to start the JVM of the next `start_spark`. Until then the caller reads and imports what it needs.

    Under spark-submit the JVM is there already.

    Args:
        lists_classes: where there is no class archive, one can be written later (`archive_classes`).
    """
    if _GATEWAY_PORT in os.environ or _launches:
        return
    java, scratch = find_java(), scratch_folder()
    connector = [str(jar) for jar in ensure_jars("connector")]
    archive = ClassArchive("spark", java, class_path_entries(connector))
    folder = tempfile.TemporaryDirectory(prefix="meshgate-")
    environment = {**os.environ, **LOCALE, "SPARK_LOCAL_DIRS": str(scratch)}
    # With it workers would read pyspark's sources from its zip file, and compile them: twice the time of their start.
    environment.pop("SPARK_HOME", None)
    environment["_PYSPARK_DRIVER_CONN_INFO_PATH"] = str(Path(folder.name, "gateway"))
    if master.startswith("local"):  # else it looks for an address by the host's name
        environment.setdefault("SPARK_LOCAL_IP", LOOPBACK["spark.driver.host"])
    options = [*jvm_options, *archive.options(lists=lists_classes), _LOG, f"-Djava.io.tmpdir={scratch}"]
    launch = _Launch(SparkJvm([*jvm(java, connector), *options, GATEWAY], environment), archive, folder)
    _launches.append(launch)


def start_spark(
    name: str, master: str, settings: Mapping[str, str], *, jvm_options: Iterable[str] = COMPILES_EARLY
) -> SparkSession:
    """Starts a session with the Kafka connector, on the JVM that was begun or on one of its own."""
    begin_jvm(master, jvm_options=jvm_options)
    from pyspark.conf import SparkConf
    from pyspark.sql import SparkSession

    is_submitted = not _launches
    conf = SparkConf(loadDefaults=False).setAppName(name)
    conf.setAll(list(session_settings(master, settings, submitted=is_submitted).items()))
    if is_submitted or not master.startswith("local"):
        # Else this JVM runs the tasks, and has the jars on its class path.
        conf.set("spark.jars", ",".join(map(str, ensure_jars("connector"))))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Else pyspark gives all workers the seed 0, and whoever names subjects could choose names that meet in one slot of
    # a dict. Nothing that workers write depends on the order of a set.
    os.environ["PYTHONHASHSEED"] = "random"
    with _own_jvm():
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def session_settings(master: str, settings: Mapping[str, str], *, submitted: bool) -> dict[str, str]:
    """Returns the settings of a session. The given settings win.

    Under spark-submit the master and the driver's address are those of spark-submit.
    """
    here = {} if submitted else {**LOOPBACK, "spark.master": master}
    return {**QUIET, **STREAMING, **here, **settings}


@contextlib.contextmanager
def _own_jvm() -> Iterator[None]:
    """Lets pyspark find its JVM. Programs that are started later must not take this one for theirs."""
    if not _launches:
        yield
        return
    launch = _launches.pop()
    launch.wait()
    _running.append(launch)
    try:
        yield
    finally:
        del os.environ[_GATEWAY_PORT], os.environ[_GATEWAY_SECRET]


def lists_classes() -> bool:
    """True if the running JVM lists its classes for an archive."""
    return any(launch.archive.list_path.exists() for launch in _running)


def archive_classes() -> bool:
    """Writes the class archive of the JVM that lists its classes, for later starts."""
    return any(launch.archive.write() for launch in _running)


class SparkFailed(Exception):
    """Raised with the words of the JVM's exception."""


@contextlib.contextmanager
def brief(session: SparkSession) -> Iterator[None]:
    """Stops the session in the end. What it threw can only be asked for while its JVM is there."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as failed:
        raise SparkFailed(failed.java_exception.toString()) from None
    except PySparkException as failed:
        raise SparkFailed(str(failed).partition("\n\nJVM stacktrace")[0]) from None
    finally:
        stop_spark(session)


def stop_spark(session: SparkSession) -> None:
    """Ends Spark and its JVM in order, so that its folders go.

    A later start in this process has a JVM of its own.
    """
    from pyspark import SparkContext

    while _running:
        running = _running.pop().jvm
        running.is_ending = True
        gateway = session.sparkContext._gateway  # noqa: SLF001 - by no other name
        if running.exit_code is None and gateway is not None:
            ignore_cut_off(session.sparkContext._accumulatorServer)  # noqa: SLF001 - by no other name
            session.stop()
            gateway.shutdown()
        running.end()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - what pyspark would go on talking to


def ignore_cut_off(accumulators: BaseServer) -> None:
    """Keeps the server of accumulators, which we have none of, from printing that the JVM cut it off.

    A JVM that stops interrupts its scheduler. If that is just telling of a task's end, this closes its channel.
    """
    accumulators.handle_error = lambda _request, _client: None  # type: ignore[assignment]


def _read_gateway(connection_info: bytes) -> None:
    """u32 port, u32 length, secret: what SparkSubmit writes for pyspark's launcher."""
    port, size = struct.unpack_from(">ii", connection_info)
    os.environ[_GATEWAY_PORT] = str(port)
    os.environ[_GATEWAY_SECRET] = connection_info[8 : 8 + size].decode()


def jvm(java: Java, extra_jars: Iterable[str]) -> list[str]:
    """Returns the command of a JVM that can run Spark, up to its main class."""
    options = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    options += ["-XX:+IgnoreUnrecognizedVMOptions", "-Xmx1g", "-XX:+UseSerialGC"]
    options += ["--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED"]
    options += ["-Dio.netty.tryReflectionSetAccessible=true", "-Dio.netty.allocator.type=pooled"]
    return [java.executable, "-cp", class_path(extra_jars), *options]


def class_path(extra_jars: Iterable[str]) -> str:
    return os.pathsep.join(class_path_entries(extra_jars))


def class_path_entries(extra_jars: Iterable[str]) -> list[str]:
    return [str(spark_home() / "conf"), str(spark_jars() / "*"), *extra_jars]
