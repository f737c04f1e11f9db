"""Java for tests and comparisons: Kafka's jars, our own classes, and `java`.

The jars are downloaded once for all; `kafka.LIBS_VARIABLE` names a folder that has them already.
"""

import shutil
import subprocess
from functools import cache
from pathlib import Path

from testkit import kafka
from testkit.errors import HarnessError

WORK = Path(__file__).parent / ".work"
JAVA_SOURCES = Path(__file__).parent / "java"

# Standard output belongs to the tools' own words.
LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.err.ref = ERR
appender.err.type = Console
appender.err.name = ERR
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = [%d] %p %m (%c)%n
"""


class JavaError(Exception):
    """Java, its compiler or Kafka's jars are not to be had."""


def is_installed() -> bool:
    """True if there is a JDK."""
    return shutil.which("java") is not None and shutil.which("javac") is not None


@cache
def libs() -> Path:
    """The folder with Kafka's jars."""
    if not kafka.has_jars(WORK) and shutil.which("mvn") is None:
        raise JavaError("no Maven, which gets Kafka's jars: install it (Debian: maven)")
    try:
        return kafka.fetch_jars(WORK)
    except HarnessError as problem:
        raise JavaError(str(problem)) from None


@cache
def _classes() -> Path:
    """The compiled programs of testkit/java."""
    if not is_installed():
        raise JavaError("no JDK: install java and javac (Debian: default-jdk-headless)")
    folder = WORK / "classes"
    folder.mkdir(parents=True, exist_ok=True)
    sources = [str(path) for path in sorted(JAVA_SOURCES.glob("*.java"))]
    done = subprocess.run(
        ["javac", "-cp", f"{libs()}/*", "-d", str(folder), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise JavaError(f"javac: {done.stderr.strip()}")
    (folder / "log4j2.properties").write_text(LOGGING)
    return folder


def prepare() -> None:
    """Get and compile what is needed, or say in one line what is missing."""
    _classes()


def command(main_class: str, *arguments: str) -> list[str]:
    """The command that runs a class of Kafka's jars or of ours."""
    classes = _classes()
    return [
        "java",
        "-Xmx512m",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={classes / 'log4j2.properties'}",
        "-cp",
        f"{classes}:{libs()}/*",
        main_class,
        *arguments,
    ]
