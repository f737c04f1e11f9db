"""The C client: compiled on the first use, run as a process, its one line of JSON as a value."""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec

from testkit.errors import HarnessError
from testkit.server import Server

SOURCE = Path(__file__).with_name("client.c")
RUN_SECONDS = 600


class Throughput(msgspec.Struct, frozen=True):
    """A produce or consume run: CPU seconds are the client's own."""

    messages: int
    seconds: float
    cpu: float
    busiest_thread: float


class Latencies(msgspec.Struct, frozen=True):
    """A latency run: microseconds from sending to acknowledgement and to arrival."""

    messages: int
    seconds: float
    cpu: float
    ack_us: list[float]
    arrival_us: list[float]


class Versions(msgspec.Struct, frozen=True):
    """What the client is built on."""

    librdkafka: str


Result = TypeVar("Result", Throughput, Latencies, Versions)


class Client:
    """Runs the compiled client against a server."""

    def __init__(self, program: Path) -> None:
        self.program = program

    @classmethod
    def build(cls, work: Path) -> "Client":
        """Compiles the client unless it is newer than its source."""
        program = work / "client"
        if not program.exists() or program.stat().st_mtime < SOURCE.stat().st_mtime:
            compiler = ["cc", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-o", str(program)]
            done = subprocess.run(
                [*compiler, str(SOURCE), "-lrdkafka", "-lpthread"],
                check=False,
                text=True,
                capture_output=True,
            )
            if done.returncode:
                raise HarnessError(f"bench/client.c was not compiled: {done.stderr.strip()}")
        return cls(program)

    def produce(self, server: Server, topic: str, **options: int | str) -> Throughput:
        """Produces `messages` as fast as they are acknowledged."""
        return self._run(Throughput, self._command("produce", server, topic, options))

    def consume(self, server: Server, topic: str, **options: int | str) -> Throughput:
        """Consumes `messages` from the topic's beginning."""
        return self._run(Throughput, self._command("consume", server, topic, options))

    def transactions(self, server: Server, topic: str, **options: int | str) -> Throughput:
        """Produces `messages` in transactions of `run` each."""
        return self._run(Throughput, self._command("transactions", server, topic, options))

    def latency(self, server: Server, topic: str, **options: int | str) -> Latencies:
        """Sends `messages` at a fixed `rate` and times each."""
        return self._run(Latencies, self._command("latency", server, topic, options))

    def versions(self) -> Versions:
        """What the client is built on."""
        return self._run(Versions, [str(self.program), "versions"])

    @contextmanager
    def scans(self, count: int, server: Server, topic: str, **options: int | str) -> Iterator[None]:
        """`count` clients that read the whole topic again and again meanwhile.

        A load that ended early would make a stall look like none, so that is an error.
        """
        command = self._command("scan", server, topic, options)
        with ExitStack() as stack:
            clients = []
            for _ in range(count):
                client = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                stack.callback(_end, client)
                clients.append(client)
            yield
            if any(client.poll() is not None for client in clients):
                raise HarnessError("a scanning client ended before the measurement did")

    def _command(
        self, mode: str, server: Server, topic: str, options: dict[str, int | str]
    ) -> list[str]:
        given = {"bootstrap": server.measured_bootstrap, "topic": topic}
        given |= {f"rd.{name}": value for name, value in server.client_settings.items()}
        given |= {name: str(value) for name, value in options.items()}
        return [str(self.program), mode, *(f"{name}={value}" for name, value in given.items())]

    def _run(self, kind: type[Result], command: list[str]) -> Result:
        try:
            done = subprocess.run(command, check=False, capture_output=True, timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            raise HarnessError(f"the client did not end in {RUN_SECONDS} s: {command[1]}") from None
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip() or f"status {done.returncode}"
            raise HarnessError(f"{command[1]}: {said.splitlines()[-1]}")
        return msgspec.json.decode(done.stdout, type=kind)


def _end(client: "subprocess.Popen[bytes]") -> None:
    client.kill()
    client.wait()
