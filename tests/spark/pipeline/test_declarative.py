"""Spark Declarative Pipelines: the example runs, with Ottla as source and sink."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from ottla.client import Admin, Client
from ottla.embedded import Broker
from testkit.waiting import stretched

from .running import SHORT_LIVED_JVM, committed, event, send

EXAMPLE = Path(__file__).parents[3] / "examples" / "declarative"
SPARK_HOME = Path(pyspark.__file__).parent


@pytest.mark.timeout(900)
def test_the_declarative_example_runs(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/ottla-declarative", f"{tmp_path}/storage"))
    with Broker() as broker, Client(broker.bootstrap_servers) as client:
        Admin(client).create_topic("clicks", partitions=2)
        kinds = ("view", "buy", "view")
        send(client, "clicks", (event(n, kinds[n % 3], "10:00:00") for n in range(30)))
        ran = subprocess.run(
            [str(SPARK_HOME / "bin" / "spark-pipelines"), "run", "--spec", str(spec)],
            cwd=tmp_path,
            env={
                **os.environ,
                **SHORT_LIVED_JVM,
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                "OTTLA_BOOTSTRAP": broker.bootstrap_servers,
            },
            capture_output=True,
            text=True,
            timeout=stretched(170),
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        found = [json.loads(value)["id"] for value in committed(client, "buys")]
    assert sorted(found) == list(range(1, 30, 3))
    assert (tmp_path / "spark-warehouse" / "types").exists()
