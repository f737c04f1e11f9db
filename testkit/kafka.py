"""Apache Kafka as a server: the jars through Maven, one KRaft node, its defaults.

Only what a single node needs differs from Kafka's own settings: listeners on free ports of this
machine, the folder, and one replica for the internal topics. KAFKA_LIBS names a
folder that has the jars already.
"""

import base64
import os
import subprocess
import uuid
from pathlib import Path

from testkit.errors import HarnessError
from testkit.server import ProcessServer, free_port

VERSION = "4.3.0"
LOG4J_VERSION = "2.24.3"
JARS = [
    ("org.apache.kafka", "kafka_2.13", VERSION),
    ("org.apache.kafka", "kafka-tools", VERSION),
    ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J_VERSION),
    ("org.apache.logging.log4j", "log4j-core", LOG4J_VERSION),
]
JVM = ["-Xmx1g", "-Xms1g", "-XX:+UseG1GC"]
LIBS_VARIABLE = "KAFKA_LIBS"

# What Kafka's own distribution logs, on standard output.
LOGGING = """\
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = OUT
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def pom() -> str:
    """A Maven project that is nothing but its dependencies."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></dependency>\n"
        for group, artifact, version in JARS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n'
        "<modelVersion>4.0.0</modelVersion>\n"
        "<groupId>ottla.bench</groupId><artifactId>kafka</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )


def has_jars(work: Path) -> bool:
    """Whether the jars are there, so that Maven is not needed."""
    return LIBS_VARIABLE in os.environ or (work / f"kafka-{VERSION}" / "complete").exists()


def fetch_jars(work: Path) -> Path:
    """The folder with Kafka's jars, downloaded on the first use."""
    if given := os.environ.get(LIBS_VARIABLE):
        libs = Path(given).resolve()
        if not (libs / f"kafka_2.13-{VERSION}.jar").exists():
            raise HarnessError(f"{LIBS_VARIABLE}={given} holds no kafka_2.13-{VERSION}.jar")
        return libs
    # Maven runs in the folder, where a relative path would mean another place.
    project = work.resolve() / f"kafka-{VERSION}"
    libs = project / "libs"
    complete = project / "complete"
    if not complete.exists():
        project.mkdir(parents=True, exist_ok=True)
        (project / "pom.xml").write_text(pom())
        maven = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={libs}"]
        done = subprocess.run(
            maven,
            cwd=project,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            said = done.stdout.strip().splitlines() or ["no message"]
            raise HarnessError(f"Maven could not get Kafka {VERSION}: {said[0]}")
        complete.touch()
    return libs


class Kafka(ProcessServer):
    """One Apache Kafka node, broker and controller together."""

    name = "Kafka"
    node_id = 1

    def __init__(self, folder: Path, libs: Path) -> None:
        super().__init__(folder)
        self.libs = libs
        self.controller_port = free_port()
        self.cluster_id = new_cluster_id()

    def voters(self) -> str:
        """The controllers' quorum: this node."""
        return f"{self.node_id}@127.0.0.1:{self.controller_port}"

    def settings(self) -> dict[str, str]:
        """What a node needs to be told; defaults for the rest."""
        return {
            "process.roles": "broker,controller",
            "node.id": str(self.node_id),
            "controller.quorum.voters": self.voters(),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            **self.replicas(),
        }

    def replicas(self) -> dict[str, str]:
        """Internal topics with one replica: there is one node."""
        return {
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
        }

    def prepare(self) -> None:
        """Writes the settings and formats the data folder, as Kafka wants it before a start."""
        properties = "".join(f"{name}={value}\n" for name, value in self.settings().items())
        (self.folder / "server.properties").write_text(properties)
        (self.folder / "log4j2.properties").write_text(LOGGING)
        # With "=", since an id may begin with a dash.
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={self.cluster_id}"]
        done = subprocess.run(
            [*self._java(), *tool, "-c", "server.properties"],
            cwd=self.folder,
            check=False,
            text=True,
            capture_output=True,
        )
        if done.returncode:
            raise HarnessError(f"Kafka's storage was not formatted: {done.stderr.strip()}")

    def command(self) -> list[str]:
        """The broker with a heap of 1 GB."""
        return [*self._java(*JVM), "kafka.Kafka", "server.properties"]

    def _java(self, *options: str) -> list[str]:
        logging = "-Dlog4j2.configurationFile=log4j2.properties"
        return ["java", logging, *options, "-cp", f"{self.libs}/*"]


def new_cluster_id() -> str:
    """A name for a cluster, as Kafka's own tool makes them."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
