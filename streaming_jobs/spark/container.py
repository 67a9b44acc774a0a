"""The router's image starts this module.

Kubernetes passes `executor` to a pod that Spark's driver asked for, and `driver` to one that spark-submit or an
operator made; the environment they bring is Spark's own contract with its images. Anything else is the command line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence

from gateway.local.class_archive import ClassArchive
from gateway.local.jars import ensure_jars
from gateway.local.java import Java, find_java
from streaming_jobs.spark.session import SUBMIT, class_path_entries, jvm

EXECUTOR = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_MISSING_MODULE = "--add-modules=jdk.incubator."
"""Spark asks for the vector module, for its linear algebra; slim runtimes lack it, and would not start."""


def main() -> None:
    role, *arguments = sys.argv[1:] or ["--help"]
    if role not in ("driver", "executor"):
        from gateway.cli import main as command_line

        command_line()
        return
    java = find_java()
    # On the class path from the start: that is where a data source is looked up.
    connector = [str(jar) for jar in ensure_jars("connector")]
    command = driver(java, connector, arguments) if role == "driver" else executor(java, connector, os.environ)
    os.execv(command[0], command)  # noqa: S606 - the command is our own


def driver(java: Java, connector: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Returns the command of the driver.

    `arguments` are spark-submit's: the class of its Python runner, the file, and what the file gets.
    """
    bind = os.environ.get("SPARK_DRIVER_BIND_ADDRESS", "0.0.0.0")  # noqa: S104 - a pod's own address space
    conf = ["--conf", f"spark.driver.bindAddress={bind}", "--deploy-mode", "client"]
    return [*jvm(java, connector), SUBMIT, *conf, *arguments]


def executor(java: Java, connector: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Returns the command of an executor. It starts with the classes that the image has archived for the driver."""
    memory = environment["SPARK_EXECUTOR_MEMORY"]
    archive = ClassArchive("spark", java, class_path_entries(connector))
    options = [*archive.options(lists=False), *_java_options(environment), f"-Xms{memory}", f"-Xmx{memory}"]
    return [*jvm(java, connector), *options, EXECUTOR, *_backend_arguments(environment)]


def _java_options(environment: Mapping[str, str]) -> Iterator[str]:
    """Returns SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …: one argument each."""
    number = 0
    while (option := environment.get(f"SPARK_JAVA_OPT_{number}")) is not None:
        if not option.startswith(_MISSING_MODULE):
            yield option
        number += 1


def _backend_arguments(environment: Mapping[str, str]) -> Iterator[str]:
    for option, name in (
        ("--driver-url", "SPARK_DRIVER_URL"),
        ("--executor-id", "SPARK_EXECUTOR_ID"),
        ("--cores", "SPARK_EXECUTOR_CORES"),
        ("--app-id", "SPARK_APPLICATION_ID"),
        ("--hostname", "SPARK_EXECUTOR_POD_IP"),
        ("--resourceProfileId", "SPARK_RESOURCE_PROFILE_ID"),
        ("--podName", "SPARK_EXECUTOR_POD_NAME"),
    ):
        yield option
        yield environment[name]


if __name__ == "__main__":
    main()
