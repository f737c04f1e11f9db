"""Which settings Spark starts with, and what is said where it cannot start."""

import os
import sys
from pathlib import Path
from socket import create_server, socket
from socketserver import BaseRequestHandler

import pytest
from click.testing import CliRunner
from pyspark.accumulators import AccumulatorTCPServer

from ottla.cli.pipeline import command
from pyspark_ottla.pipeline import running
from pyspark_ottla.pipeline.checking import load
from pyspark_ottla.pipeline.failures import cause
from pyspark_ottla.pipeline.problems import PipelineError
from pyspark_ottla.pipeline.restarts import Restarts
from pyspark_ottla.pipeline.session import (
    CHECKPOINT_FILES,
    checkpoint_settings,
    keep_quiet_at_the_end,
    require_java,
    settings_for,
)
from pyspark_ottla.pipeline.spark_home import use_home_without_zip

FILE = """\
checkpoint: s
sources: {c: {topic: t, format: text}}
sinks: {out: {from: c, lake: lake}}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "p.yaml"
    path.write_text(FILE)
    return str(path)


def test_the_command_line_takes_precedence_over_the_file_and_both_over_defaults() -> None:
    file = {"spark.sql.session.timeZone": "CET", "spark.x": "file", "spark.master": "local[3]"}
    chosen = settings_for("local[1]", file, {"spark.x": "flag"})
    assert chosen["spark.sql.session.timeZone"] == "CET"
    assert chosen["spark.x"] == "flag"
    assert chosen["spark.master"] == "local[1]"


def test_a_cluster_keeps_its_own_shuffle_partitions_and_addresses() -> None:
    local, cluster = settings_for(None), settings_for("spark://there:7077")
    for name in ("spark.sql.shuffle.partitions", "spark.driver.host", "spark.ui.enabled"):
        assert name in local
        assert name not in cluster


@pytest.mark.parametrize(
    ("checkpoint", "lake", "is_plain"),
    [
        ("s", "lake", True),
        ("file:/data/s", "file:/data/lake", True),
        ("s3a://bucket/s", "lake", False),
        ("s", "hdfs://there/lake", False),
    ],
)
def test_only_files_of_this_machine_are_handled_as_such(
    file: str, checkpoint: str, lake: str, is_plain: bool
) -> None:
    text = FILE.replace("checkpoint: s", f"checkpoint: {checkpoint}")
    Path(file).write_text(text.replace("lake: lake", f"lake: {lake}"))
    chosen = settings_for(None, checkpoint_settings(load(file)))
    assert (CHECKPOINT_FILES in chosen) is is_plain


def test_without_java_there_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(PipelineError, match=r"^Spark needs Java 17 or newer") as missing:
        require_java()
    assert "\n" not in str(missing.value)


def test_without_the_extra_there_is_one_line(monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    for name in [name for name in sys.modules if name.startswith("pyspark_ottla.pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    ran = CliRunner().invoke(command, ["check", file])
    assert ran.exit_code == 1
    assert ran.output.count("\n") == 1
    assert f"pipelines need the package sqlglot: {sys.executable} -m pip install " in ran.output
    assert " 'sqlglot>=27'" in ran.output
    assert "deltalake" not in ran.output


def test_without_the_package_of_a_lake_there_is_one_line_before_spark_starts(
    monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr("ottla.cli.pipeline.find_spec", lambda name: None)
    assert CliRunner().invoke(command, ["check", file]).exit_code == 0  # Parquet needs none
    for lake, package in (("delta", "deltalake"), ("iceberg, table: a.t", "pyiceberg")):
        Path(file).write_text(FILE.replace("lake: lake", f"lake: lake, format: {lake}"))
        for verb in ("check", "run"):
            ran = CliRunner().invoke(command, [verb, file])
            assert ran.exit_code == 1
            assert ran.output.count("\n") == 1
            assert f"needs the package {package}: {sys.executable} -m pip install " in ran.output
            assert "'deltalake>=1.1' 'pyiceberg[" in ran.output


def test_check_says_what_it_saw(file: str) -> None:
    ran = CliRunner().invoke(command, ["check", file])
    assert (ran.exit_code, ran.output) == (
        0,
        f"{file}: 1 source, 0 steps, 1 sink, no mistakes found\n",
    )


def test_check_ends_with_1_and_a_line_for_each_mistake(file: str) -> None:
    path = Path(file)
    path.write_text(FILE.replace("from: c", "from: d").replace("format: text", "format: txt"))
    ran = CliRunner().invoke(command, ["check", file])
    assert ran.exit_code == 1
    assert ran.output.splitlines() == [
        f"{file}:2: source c: format cannot be txt: did you mean text?",
        f"{file}:3: sink out: there is no source or step d: there is c",
    ]


def test_run_refuses_settings_that_are_not_sparks(file: str) -> None:
    ran = CliRunner().invoke(command, ["run", file, "--set", "memory=4g"])
    assert ran.exit_code == 2
    assert "--set memory: Spark's settings begin with spark." in ran.output


def test_run_names_a_broker_that_is_down_before_java_is_started(
    monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(running, "start_session", started)
    with create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ran = CliRunner().invoke(command, ["run", file, "--bootstrap", f"127.0.0.1:{port}"])
    assert (ran.exit_code, ran.output) == (
        1,
        f"cannot reach a broker at 127.0.0.1:{port}: Connection refused\n",
    )


def test_the_cause_of_a_failure_is_the_innermost_python_error() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: [X] Traceback:\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "ottla.wire.errors.KafkaError: topic t does not exist\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 2, in main\n'
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [DATA_SOURCE_ERROR] failed\n"
        "\tat org.apache.spark.X\n"
    )
    assert cause(text) == "topic t does not exist"
    assert cause("[STREAM_FAILED] It broke. SQLSTATE: XXKST\n== Plan ==\nx") == (
        "[STREAM_FAILED] It broke."
    )


def test_what_a_call_in_foreach_batch_failed_of_is_reported_without_the_call() -> None:
    text = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Return Message: Traceback (most "
        'recent call last):\n  File "each_batch.py", line 35, in write\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
        ": java.io.IOException: Stream closed\n\tat java.base/X\n"
    )
    assert cause(text) == "java.io.IOException: Stream closed"
    assert Restarts().allow(text, 0)
    of_data = (
        text + "Caused by: PythonException: Traceback (most recent call last):\nx.RowError: no\n"
    )
    assert cause(of_data) == "no"
    assert not Restarts().allow(of_data, 0)


def test_that_spark_hangs_up_in_the_end_is_no_news_and_other_errors_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    keep_quiet_at_the_end()
    server = AccumulatorTCPServer(("127.0.0.1", 0), BaseRequestHandler, "token")
    for problem in (EOFError(), ValueError("a wrong token")):
        try:
            raise problem
        except (EOFError, ValueError):
            server.handle_error(socket(), ("127.0.0.1", 1))
    server.server_close()
    printed = capsys.readouterr().err
    assert "a wrong token" in printed
    assert "EOFError" not in printed


def test_python_processes_take_the_installed_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME")
    use_home_without_zip()
    home = Path(os.environ["SPARK_HOME"])
    assert (home / "bin" / "spark-submit").exists()
    assert (home / "jars").is_dir()
    assert not list(home.glob("python/lib/*.zip"))
    use_home_without_zip()
    assert os.environ["SPARK_HOME"] == str(home), "a home that is there is kept"
