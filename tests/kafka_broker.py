"""A real broker for the tests marked `kafka`: one per run, ended with it.

Taken from HEADRACE_TEST_KAFKA (kafka://host:port) if set, else a container where a Docker engine answers, else Java and
Maven (`deploy.kafka`). Without any of them the tests are skipped, except under CI, where that is a failure.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from deploy.kafka.broker import Broker, answers, free_ports
from deploy.kafka.jars import CannotRun

_IMAGE = "apache/kafka:4.3.1"
_SECONDS = 120


@pytest.fixture(scope="session")
def kafka_url() -> Iterator[str]:
    """kafka://host:port"""
    given = os.environ.get("HEADRACE_TEST_KAFKA")
    if given:
        yield given
        return
    sources: list[Callable[[], AbstractContextManager[str]]] = [_container, _local]
    reasons = []
    for source in sources:
        try:
            broker = source()
            url = broker.__enter__()
        except CannotRun as error:
            reasons.append(str(error))
            continue
        try:
            yield url
        finally:
            broker.__exit__(None, None, None)
        return
    reason = "no Kafka broker: " + "; ".join(reasons)
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def _local() -> Iterator[str]:
    with Broker() as broker:
        yield broker.url


@contextmanager
def _container() -> Iterator[str]:
    require_docker()
    from testcontainers.core.container import DockerContainer

    [port] = free_ports(1)
    container = DockerContainer(_IMAGE).with_bind_ports(port, port)
    host = container.get_container_host_ip()
    for name, value in _container_settings(host, port).items():
        container.with_env(name, value)
    try:
        container.start()
    except Exception as error:
        raise CannotRun(f"Docker could not run {_IMAGE}: {str(error)[:200]}") from error
    try:
        deadline = time.monotonic() + _SECONDS
        while not answers(port, host):
            if time.monotonic() > deadline:
                raise CannotRun(f"{_IMAGE} did not answer within {_SECONDS} s")
            time.sleep(0.2)
        yield f"kafka://{host}:{port}"
    finally:
        container.stop()


def require_docker() -> None:
    try:
        from testcontainers.core.docker_client import DockerClient

        client = DockerClient(timeout=3).client
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:
        raise CannotRun(f"no Docker engine answers ({type(error).__name__})") from error


def _container_settings(host: str, port: int) -> dict[str, str]:
    return {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9094",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENERS": f"PLAINTEXT://0.0.0.0:{port},CONTROLLER://0.0.0.0:9094",
        "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{host}:{port}",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
        "KAFKA_MESSAGE_MAX_BYTES": str(16 << 20),
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
    }
