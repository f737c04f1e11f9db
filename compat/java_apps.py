"""Kafka Streams and Kafka Connect, as they come from Maven Central, on one broker.

Streams counts words with exactly_once_v2 (internal topics, transactions, state restored from its
changelog), as a classic group and as a streams group (KIP-1071). Connect copies a file to a file
through a topic. The jars are those of Kafka's version in the bench.
"""

import subprocess
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from compat.checks import CheckError, check, expect, new_topic
from testkit import java_runtime
from testkit.kafka import VERSION
from testkit.process import BrokerProcess

HERE = Path(__file__).parent
SOURCES = HERE / "java-apps"
WORK = HERE / ".work" / f"java-apps-{VERSION}"
ARTIFACTS = ("kafka-streams", "connect-runtime", "connect-file")
RUN_SECONDS = 180
LINES = 2_000

STRING = "org.apache.kafka.connect.storage.StringConverter"
FILE = "org.apache.kafka.connect.file.FileStream"


def _pom() -> str:
    dependencies = "".join(
        f"<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{VERSION}</version></dependency>\n"
        for artifact in ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n<modelVersion>4.0.0</modelVersion>\n'
        "<groupId>ottla.compat</groupId><artifactId>apps</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies>\n</project>\n"
    )


def _do(*command: str, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise CheckError(f"{command[0]}: {said[0]}")


@cache
def _class_path() -> str:
    """The jars, downloaded on the first use, and the program compiled against them."""
    libs, classes, complete = WORK / "libs", WORK / "classes", WORK / "complete"
    if not complete.exists():
        WORK.mkdir(parents=True, exist_ok=True)
        (WORK / "pom.xml").write_text(_pom())
        _do("mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs", cwd=WORK)
        complete.touch()
    sources = [str(path) for path in sorted(SOURCES.glob("*.java"))]
    _do("javac", "-cp", f"{libs}/*", "-d", str(classes), *sources, cwd=WORK)
    (WORK / "log4j2.properties").write_text(java_runtime.LOGGING)
    # Streams and Connect log through slf4j; Kafka's own jars have what writes it.
    return f"{classes}:{libs}/*:{java_runtime.libs()}/*"


def java_command(*arguments: str) -> list[str]:
    """The command that runs one of the programs here, of Streams or of Connect."""
    class_path = _class_path()
    settings = f"-Dlog4j2.configurationFile={WORK / 'log4j2.properties'}"
    # Short lives: the first compiler is enough.
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", settings, "-cp", class_path, *arguments]


def _count_words(broker: BrokerProcess, protocol: str) -> tuple[int, str]:
    with TemporaryDirectory() as folder:
        arguments = [broker.bootstrap, new_topic("words"), folder, protocol, str(LINES)]
        done = subprocess.run(
            java_command("WordCount", *arguments),
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    return done.returncode, done.stdout


@check("java-apps")
def streams_count_words_exactly_once(broker: BrokerProcess) -> str:
    """Every word is counted once, and so after a restart without local state."""
    status, told = _count_words(broker, "classic")
    lines = told.strip().splitlines() or ["no word"]
    expect(status == 0, lines[-1])
    return lines[-1]


@check("java-apps")
def streams_count_words_as_a_streams_group(broker: BrokerProcess) -> str:
    """The same with `group.protocol=streams`: the broker creates topics and divides the tasks."""
    status, told = _count_words(broker, "streams")
    lines = told.strip().splitlines() or ["no word"]
    expect(status == 0, lines[-1])
    return lines[-1]


def _properties(path: Path, **settings: object) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


@check("java-apps")
def connect_copies_a_file_through_a_topic(broker: BrokerProcess) -> str:
    """A standalone worker with the FileStream source and sink."""
    topic = new_topic("lines")
    with TemporaryDirectory() as name:
        folder = Path(name)
        source, target, log = folder / "in.txt", folder / "out.txt", folder / "log"
        source.write_text("".join(f"line {number}\n" for number in range(LINES)))
        worker = {
            "bootstrap.servers": broker.bootstrap,
            "key.converter": STRING,
            "value.converter": STRING,
            "offset.storage.file.filename": folder / "offsets",
            "plugin.discovery": "service_load",
            "listeners": "http://127.0.0.1:0",
        }
        reader = {"name": "source", "connector.class": f"{FILE}SourceConnector", "topic": topic}
        writer = {"name": "sink", "connector.class": f"{FILE}SinkConnector", "topics": topic}
        command = java_command(
            "org.apache.kafka.connect.cli.ConnectStandalone",
            _properties(folder / "worker", **worker),
            _properties(folder / "source", file=source, **reader),
            _properties(folder / "sink", file=target, **writer),
        )
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            _until_equal(process, source, target, log)
        finally:
            process.terminate()
            process.wait(60)
    return f"{LINES:,} lines"


def _until_equal(process: subprocess.Popen[bytes], source: Path, target: Path, log: Path) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(FileNotFoundError):
            if target.read_bytes() == source.read_bytes():
                return
        time.sleep(0.5)
    said = log.read_text(errors="replace").strip().splitlines() or ["no word"]
    raise CheckError(f"the copy is not the file: {said[-1]}")
