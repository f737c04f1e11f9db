"""PySpark 4.2.0 with Spark's official Kafka connector, beside the PySpark of this checkout.

PySpark goes into a folder of its own, which is put before all others on the path of the programs
that are to use it; everything else (Ottla, pyarrow) is this checkout's. The connector's jars come
through Maven, each by itself: its newest token provider in the registries is older than Spark.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testkit.errors import HarnessError

SPARK_VERSION = "4.2.0"
JARS = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", SPARK_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.1"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
]
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class SparkRuntime:
    """Where PySpark and the connector's jars are."""

    packages: Path
    jars: tuple[Path, ...]

    def command(self, program: Path, *arguments: str) -> list[str]:
        """A command that runs a Python program; it needs environment()."""
        return [sys.executable, str(program), *arguments]

    def environment(self) -> dict[str, str]:
        """The variables of a process that uses this Spark."""
        kept = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
        return {
            **kept,
            "PYTHONPATH": os.pathsep.join((str(self.packages), str(ROOT), str(ROOT / "src"))),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONNECTOR_JARS": ",".join(map(str, self.jars)),
        }


def fetch(work: Path) -> SparkRuntime:
    """Get PySpark and the jars on the first use."""
    project = work / f"spark-{SPARK_VERSION}"
    packages, libs, complete = project / "packages", project / "libs", project / "complete"
    if not complete.exists():
        project.mkdir(parents=True, exist_ok=True)
        wanted = f"pyspark=={SPARK_VERSION}"
        _run([*_pip(), "install", "--quiet", "--upgrade", "--target", str(packages), wanted])
        for artifact in JARS:
            copy = [f"-Dartifact={':'.join(artifact)}", f"-DoutputDirectory={libs}"]
            _run(["mvn", "-q", "-B", "dependency:copy", *copy])
        complete.touch()
    return SparkRuntime(packages, tuple(sorted(libs.glob("*.jar"))))


def _pip() -> list[str]:
    """A pip that installs for this Python: its virtual environment need not have one."""
    base = getattr(sys, "_base_executable", sys.executable)
    return [base, "-m", "pip", "--disable-pip-version-check"]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise HarnessError(f"{' '.join(command[:4])} ...: {said[-1]}")
