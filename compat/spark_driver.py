"""A Spark driver (`spark_faults_program`) as a process: started, looked at, killed, started again.

Rules kept here:
1. The driver and its JVM are one process group, and die together. Its Python workers are left to
   notice by themselves, as on other machines; end() leaves nothing of it.
2. What it printed over all its lives is in one file: a line for each failure of its query, and the
   end of which is shown when the query does not get on.
3. The files of the checkpoint tell which batch is under way: its offsets are written before its
   first task, its commit after its last step.
4. Spark gives its Python processes ten seconds to start, most of which they spend on compiling
   PySpark's sources from a zip, each from the start. On a busy machine that is too short: they get
   a Spark without the zip, and take the PySpark that is installed.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from compat.spark_faults_program import FAILED, StreamTask
from pyspark_ottla.pipeline.spark_home import home_without_zip
from testkit import proc

ROOT = Path(__file__).parent.parent
STOP_SECONDS = 120.0
SAMPLE_SECONDS = 0.05
"""In which a process that works uses a tick of CPU time, which is 0.01 s."""
SHORT_LIVED_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVMs here end before optimising themselves pays."""


class Driver:
    """A Spark driver that is started again whenever it ends."""

    def __init__(self, task: StreamTask, log: Path) -> None:
        self._command = [
            *(sys.executable, "-m", "compat.spark_faults_program"),
            msgspec.json.encode(task).decode(),
        ]
        self._checkpoint = Path(task.checkpoint)
        self._log = log
        home = home_without_zip(log.parent / "spark-home")
        self._environment = {
            **os.environ,
            "SPARK_HOME": str(home),
            "JAVA_TOOL_OPTIONS": SHORT_LIVED_JVM,
        }
        self.deaths = 0
        """How often it has ended by itself."""
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )

    def keep_alive(self) -> None:
        """Start it again if it has ended."""
        if self._process.poll() is not None:
            self.deaths += 1
            self.end()
            self._process = self._start()

    def kill(self) -> None:
        """kill -9 of the driver and its JVM, and a successor at once."""
        self._kill()
        self._process = self._start()

    def workers(self) -> list[int]:
        """Spark's Python processes, in no order that means anything."""
        return [
            pid
            for pid in descendants(self._process.pid)
            if b"pyspark.daemon" in command_line(pid) or b"_runner" in command_line(pid)
        ]

    def busy_workers(self) -> list[int]:
        """Those of them that have just worked."""
        before = proc.all_stats()
        workers = self.workers()
        time.sleep(SAMPLE_SECONDS)
        after = proc.all_stats()
        return [
            pid
            for pid in workers
            if pid in before and pid in after and after[pid].ticks > before[pid].ticks
        ]

    def last_batch(self) -> tuple[int, int]:
        """The last batch that was begun, and the last one that is finished; -1 for none."""
        return _last(self._checkpoint / "offsets"), _last(self._checkpoint / "commits")

    def failures(self) -> list[str]:
        """What its query failed of, each time."""
        lines = self._log.read_text(errors="replace").splitlines()
        return [line.removeprefix(FAILED) for line in lines if line.startswith(FAILED)]

    def stop(self) -> bool:
        """Let it end; True if it ended well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            return self._process.wait(STOP_SECONDS) == 0
        except subprocess.TimeoutExpired:
            return False

    def end(self) -> None:
        """End it and all that it started, in any case."""
        left = descendants(self._process.pid)
        self._kill()
        for pid in left:
            kill(pid)

    def _kill(self) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def last_words(self) -> str:
        """The end of what it printed."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])


def kill(pid: int) -> None:
    """kill -9, if it is still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and theirs."""
    return [found for found in proc.tree(pid, proc.all_stats()) if found != pid]


def command_line(pid: int) -> bytes:
    """How a process was started; empty where it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _last(folder: Path) -> int:
    """The highest number among the names of files."""
    try:
        return max((int(name) for name in os.listdir(folder) if name.isdecimal()), default=-1)
    except FileNotFoundError:
        return -1
