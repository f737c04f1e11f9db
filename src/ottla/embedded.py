"""A real broker inside a Python program: `with ottla.Broker() as broker: ...`.

It runs in a thread of its own, on a free port and a temporary folder unless given others.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from ottla.config import BrokerConfig
from ottla.config.listeners import WILDCARDS
from ottla.embedded_security import ADMIN, ClientKind, SecureSetup, Security, security_of
from ottla.server.logging import quiet_logging
from ottla.server.run import RunningBroker

if TYPE_CHECKING:
    from ottla.registry.child import RegistryChild


class Broker:
    """A broker that lives as long as a `with` block, or from start() to stop().

    Settings have Kafka's names: as a mapping `{"num.partitions": 3}`, or as keyword arguments
    with underscores for dots (`num_partitions=3`). The folder `data` is kept; a temporary one
    is removed. With `registry` a schema registry runs beside it, on a free port
    (`registry_url`); it needs the extra `registry`. With `security` clients must log in
    (`client_config`): `"tls"`, `"plain"` (without encryption), or a Security with users.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        data: str | Path | None = None,
        registry: bool = False,
        security: Security | str | None = None,
        config: Mapping[str, object] | None = None,
        **settings: object,
    ) -> None:
        self._port = port
        self._host = "127.0.0.1"
        self._data = data
        self._with_registry = registry
        self._security = None if security is None else security_of(security)
        self._secure_setup: SecureSetup | None = None
        self._secrets: tempfile.TemporaryDirectory[str] | None = None
        self._registry: RegistryChild | None = None
        self._registry_url: str | None = None
        self._settings = {name: _text(value) for name, value in (config or {}).items()}
        self._settings |= {name.replace("_", "."): _text(value) for name, value in settings.items()}
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._running: RunningBroker | None = None

    @property
    def port(self) -> int:
        """The port clients connect to."""
        return self._port

    @property
    def bootstrap_servers(self) -> str:
        """What a client's `bootstrap.servers` needs."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}"

    @property
    def registry_url(self) -> str:
        """What a client's `schema.registry.url` needs; for a broker with `registry`."""
        if self._registry_url is None:
            raise RuntimeError("this broker has no schema registry: use Broker(registry=True)")
        return self._registry_url

    def client_config(
        self, user: str = ADMIN, *, client: ClientKind = "confluent"
    ) -> dict[str, object]:
        """What a client library needs to log in as a user; the super user `admin` by default.

        `bootstrap.servers` is among it. Without `security` that is all.
        """
        name = "bootstrap.servers" if client in ("confluent", "java") else "bootstrap_servers"
        where: dict[str, object] = {name: self.bootstrap_servers}
        if self._secure_setup is None:
            return where
        return {**where, **self._secure_setup.client_config(user, client)}

    @property
    def ca_file(self) -> Path:
        """The certificate authority that signed the broker's certificate; with TLS only."""
        if self._secure_setup is None or self._secure_setup.ca_file is None:
            raise RuntimeError('this broker has no certificate: use Broker(security="tls")')
        return self._secure_setup.ca_file

    def start(self) -> Self:
        """Start the broker and wait until it serves clients."""
        if self._thread is not None:
            raise RuntimeError("this broker is already started")
        folder = self._data
        if folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ottla-")
            folder = self._temporary.name
        secured = {}
        if self._security is not None:
            self._secrets = tempfile.TemporaryDirectory(prefix="ottla-security-")
            try:
                self._secure_setup = SecureSetup(self._security, Path(self._secrets.name))
            except BaseException:
                self._clean_up()
                raise
            secured = self._secure_setup.broker_settings(self._port)
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "log.dirs": str(folder),
            **secured,
            **self._settings,
        }
        started = threading.Event()
        problem: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._run, args=(settings, started, problem), name="ottla-broker", daemon=True
        )
        self._thread.start()
        started.wait()
        if problem:
            self._thread.join()
            self._thread = None
            self._clean_up()
            raise problem[0]
        if self._with_registry:
            self._start_registry()
        return self

    def _start_registry(self) -> None:
        from ottla.registry.child import RegistryChild

        login = {} if self._secure_setup is None else self.client_config(client="java")
        login.pop("bootstrap.servers", None)
        texts = {name: str(value) for name, value in login.items()}
        self._registry = RegistryChild(self.bootstrap_servers, "127.0.0.1", 0, texts, alone=True)
        try:
            self._registry.start()
            self._registry_url = self._registry.url()
        except BaseException:
            self.stop()
            raise

    def _run(
        self, settings: Mapping[str, str], started: threading.Event, problem: list[BaseException]
    ) -> None:
        async def live() -> None:
            stopped = asyncio.Event()
            try:
                running = RunningBroker(BrokerConfig.from_static(settings))
                await running.start()
            except BaseException as reason:
                problem.append(reason)
                raise
            self._running = running
            listener = running.node.config.bound_listeners[0]
            self._port = running.node.ports[listener.name]
            if listener.host not in WILDCARDS:
                self._host = listener.host
            self._loop = asyncio.get_running_loop()
            self._stopped = stopped
            started.set()
            await stopped.wait()
            await running.stop()

        quiet_logging()
        try:
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(live())
        except BaseException:
            if not problem:
                raise
        finally:
            started.set()

    def stop(self) -> None:
        """Stop the broker; a temporary folder is removed."""
        if self._thread is None:
            return
        if self._registry is not None:
            self._registry.stop()
            self._registry = self._registry_url = None
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()
        self._thread = None
        self._clean_up()

    def _clean_up(self) -> None:
        self._secure_setup = None
        for folder in (self._temporary, self._secrets):
            if folder is not None:
                folder.cleanup()
        self._temporary = self._secrets = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
