"""The Kafka of docker-compose.yml as a process: its environment goes through the program that the image starts with."""

import os
import shutil
import subprocess
from pathlib import Path

from deploy.kafka.broker import Broker
from deploy.kafka.jars import CannotRun
from tests.deploy.compose_file import ROOT, Service, environment_of, mounted

_DEFAULTS = ("server.properties", "log4j2.yaml", "tools-log4j2.yaml")


_MOUNTED = "/mnt/shared/config/"
"""Files there take the place of the image's own."""


class ComposeKafka(Broker):
    """Nothing of its configuration is ours but addresses and folders. Each container is its own `localhost`."""

    logging = "log4j2.yaml"

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    def _format(self, java: str, classpath: str, config: Path) -> None:
        defaults = self.home / "defaults"
        defaults.mkdir(parents=True)
        (self.home / "mounted").mkdir()
        for target, source in mounted(self._service).items():
            if target.startswith(_MOUNTED):
                shutil.copy(ROOT / source, self.home / "mounted")
        for name in _DEFAULTS:
            (defaults / name).touch()
        (defaults / "server.properties").write_text("unused=1\n")
        command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath, "kafka.docker.KafkaDockerWrapper"]
        command += ["setup", "-D", str(defaults), "-M", str(self.home / "mounted"), "-F", str(self.home)]
        variables = {"PATH": os.environ["PATH"], "CLUSTER_ID": self.quorum.cluster} | self._environment()
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise CannotRun(f"the image's own set-up: {(done.stdout + done.stderr)[-1000:]}")

    def _environment(self) -> dict[str, str]:
        [ports] = self.quorum.nodes
        [data] = [target for target, source in mounted(self._service).items() if source == "kafka"]
        places = {data: str(self.home / "data")}
        for host in ("kafka", "localhost", "0.0.0.0"):
            places |= {f"{host}:9092": f"127.0.0.1:{ports.client}", f"{host}:9093": f"127.0.0.1:{ports.controller}"}
        return environment_of(self._service, places)
