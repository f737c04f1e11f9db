"""A registry process of this checkout, and a client that shows replies as they are."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from types import TracebackType
from typing import Any, NamedTuple, Self

from testkit.process import plain_environment
from testkit.waiting import stretched

V1_JSON = "application/vnd.schemaregistry.v1+json"


class Reply(NamedTuple):
    """What a registry answered."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def code(self) -> int:
        """Confluent's error code."""
        assert isinstance(self.body, dict)
        found: int = self.body["error_code"]
        return found

    @property
    def message(self) -> str:
        """Confluent's error text."""
        assert isinstance(self.body, dict)
        return str(self.body["message"])


class Rest:
    """A client of one registry."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self.url = url
        self._headers = {"Content-Type": V1_JSON, **(headers or {})}

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 60,
    ) -> Reply:
        """One request; `raw` is a body that is not JSON."""
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self.url + path, data, {**self._headers, **(headers or {})}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as found:
                return Reply(found.status, json.loads(found.read()), dict(found.headers))
        except urllib.error.HTTPError as problem:
            with problem:
                return Reply(problem.code, json.loads(problem.read()), dict(problem.headers))

    def register(self, subject: str, schema: object, **more: object) -> Reply:
        """Register a schema, given as text or as what is its JSON."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return self("POST", f"/subjects/{subject}/versions", {"schema": text, **more})


class RegistryProcess:
    """`ottla registry` on a free port."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [sys.executable, "-m", "ottla", "registry", "--supervised", "--port", "0"]
        self._command = [*command, "--bootstrap", bootstrap, *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.errors = b""

    @property
    def pid(self) -> int:
        """The running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        """Start it, and wait until it serves."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=plain_environment(),
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().decode().strip()
        assert self.url, self._process.communicate()[1].decode()
        return self

    def rest(self) -> Rest:
        """A client of it."""
        return Rest(self.url)

    def kill(self) -> None:
        """kill -9, its child too."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.errors += self._process.communicate()[1]
            self._process = None

    def stop(self) -> int:
        """Ask it to end; returns its status."""
        assert self._process is not None
        self._process.terminate()
        self.errors += self._process.communicate(timeout=stretched(30))[1]
        status = self._process.returncode
        self._process = None
        return status

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
