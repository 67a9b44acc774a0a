"""The router's image in its three roles, and the settings a Spark session gets in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.local.class_archive import ClassArchive
from gateway.local.java import Java
from streaming_jobs.spark.container import driver, executor
from streaming_jobs.spark.session import LOOPBACK, class_path_entries, session_settings
from tests.unit.cli.running import run

JAVA = Java("/opt/java/bin/java", 25, "a test")
CONNECTOR = ["/jars/spark-sql-kafka.jar", "/jars/kafka-clients.jar"]
ENVIRONMENT = {
    "SPARK_EXECUTOR_MEMORY": "2g",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@mesh-router-0:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "mesh-exec-3",
}


def class_path(command: list[str]) -> list[str]:
    return command[command.index("-cp") + 1].split(":")


def test_an_executor_connects_to_the_driver_that_asked_for_it() -> None:
    command = executor(JAVA, CONNECTOR, ENVIRONMENT)
    backend = command[command.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend") + 1 :]
    told = dict(zip(backend[::2], backend[1::2], strict=True))
    assert command[0] == JAVA.executable
    assert told == {
        "--driver-url": "spark://CoarseGrainedScheduler@mesh-router-0:7078",
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.7",
        "--resourceProfileId": "0",
        "--podName": "mesh-exec-3",
    }


def test_an_executor_starts_with_the_classes_that_the_image_has_archived(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MESHGATE_CACHE", str(tmp_path))
    assert not any("SharedArchiveFile" in option for option in executor(JAVA, CONNECTOR, ENVIRONMENT))
    archive = ClassArchive("spark", JAVA, class_path_entries(CONNECTOR))
    archive.path.parent.mkdir()
    archive.path.touch()
    assert f"-XX:SharedArchiveFile={archive.path}" in executor(JAVA, CONNECTOR, ENVIRONMENT)


def test_an_executor_has_the_memory_it_was_given_and_no_other() -> None:
    command = executor(JAVA, CONNECTOR, ENVIRONMENT)
    assert [option for option in command if option.startswith("-Xmx")][-1] == "-Xmx2g"  # the last one holds


def test_options_of_an_executor_are_taken_one_by_one_in_their_order() -> None:
    options = {f"SPARK_JAVA_OPT_{at}": f"-Dname={at} with a space" for at in range(11)}
    command = executor(JAVA, CONNECTOR, ENVIRONMENT | options)
    given = [option for option in command if option.startswith("-Dname=")]
    assert given == [f"-Dname={at} with a space" for at in range(11)]


def test_a_module_that_slim_runtimes_lack_is_not_asked_for() -> None:
    options = {"SPARK_JAVA_OPT_0": "--add-modules=jdk.incubator.vector", "SPARK_JAVA_OPT_1": "-Dkept=yes"}
    command = executor(JAVA, CONNECTOR, ENVIRONMENT | options)
    assert not [option for option in command if "incubator" in option]
    assert "-Dkept=yes" in command


@pytest.mark.parametrize("role", ["driver", "executor"])
def test_the_connector_is_on_the_class_path_from_the_start(role: str) -> None:
    command = driver(JAVA, CONNECTOR, []) if role == "driver" else executor(JAVA, CONNECTOR, ENVIRONMENT)
    assert class_path(command)[-2:] == CONNECTOR


def test_a_driver_passes_on_what_its_submitter_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_DRIVER_BIND_ADDRESS", "10.0.0.5")
    command = driver(JAVA, CONNECTOR, ["--class", "org.apache.spark.deploy.PythonRunner", "local:///submit.py"])
    submitted = command[command.index("org.apache.spark.deploy.SparkSubmit") + 1 :]
    assert submitted == [
        "--conf", "spark.driver.bindAddress=10.0.0.5", "--deploy-mode", "client",
        "--class", "org.apache.spark.deploy.PythonRunner", "local:///submit.py",
    ]  # fmt: skip


def test_a_session_of_our_own_keeps_to_loopback_unless_told_otherwise() -> None:
    assert LOOPBACK.items() <= session_settings("local[4]", {}, submitted=False).items()
    given = {"spark.driver.host": "mesh-router-0.mesh-router"}
    assert session_settings("local[4]", given, submitted=False)["spark.driver.host"] == "mesh-router-0.mesh-router"


def test_a_submitted_session_leaves_master_and_address_to_its_submitter() -> None:
    settings = session_settings("local[4]", {}, submitted=True)
    assert not settings.keys() & {"spark.master", *LOOPBACK}


def test_a_setting_that_is_none_of_sparks_is_refused() -> None:
    result = run("router", "--conf", "driver.host=here")
    assert result.exit_code == 2
    assert "expected spark.NAME=VALUE, got driver.host" in result.stderr
