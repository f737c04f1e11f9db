"""A whole broker: broker server, listeners and metrics, started and stopped together.

`run_broker` is what `ottla serve` calls. `RunningBroker` is the same broker inside an event
loop that the caller owns (see `ottla.embedded`).
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import structlog

from ottla.api import load_all
from ottla.broker.broker_server import BrokerServer
from ottla.broker.metadata.token_logins import TokenLogins
from ottla.broker.metrics.counters import NetworkMetrics
from ottla.broker.start_error import StartError
from ottla.config import BrokerConfig, ConfigError
from ottla.security.principal import USER, Principal
from ottla.security.scram import ScramCredential
from ottla.server.door import Door
from ottla.server.listening import ListenError, check_free, why
from ottla.server.server import Server

if TYPE_CHECKING:
    from ottla.broker.metrics.metrics_server import MetricsServer
    from ottla.server.worker import Heart

log = structlog.get_logger()

SWITCH_SECONDS = 0.0005


class RunningBroker:
    """One broker in the running event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        load_all()
        self.config = config
        self.network = NetworkMetrics()
        self.node = BrokerServer(config)
        self._secret = os.urandom(32)
        self._tokens = TokenLogins(config, self.node.image, self.node.clock, self._fake_salts)
        doors = [
            Door.of(config, listener, self._find_credential, self._tokens.find, self._fake_salts)
            for listener in config.bound_listeners
        ]
        self.server = Server(self.node, self.network, doors)
        self.node.authorization.on_users_changed = self._users_changed
        self.metrics: MetricsServer | None = None
        self._stack = AsyncExitStack()

    def _find_credential(self, mechanism: str, user: str) -> ScramCredential | None:
        found = self.node.image.scram_credentials.get((mechanism, user))
        if found is None:
            return None
        return ScramCredential(found.salt, found.stored_key, found.server_key, found.iterations)

    def _fake_salts(self) -> bytes:
        return self.node.image.security_secret or self._secret

    def _users_changed(self, users: Sequence[str]) -> None:
        """Close the connections of users that were removed."""
        known = {user for _, user in self.node.image.scram_credentials}
        gone = [Principal(USER, user) for user in users if user not in known]
        if gone:
            self.server.close_sessions(gone)

    async def start(self) -> None:
        """Bind, open the logs, then let clients in. Raises StartError with one clear line."""
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise

    async def _start(self) -> None:
        node, server = self.node, self.server
        try:
            check_free(self.config)  # before the data folder is made
        except ListenError as problem:
            raise StartError(str(problem)) from None
        await node.open()
        self._stack.push_async_callback(node.close)
        try:
            ports = server.listen(self.config.bound_listeners)
        except ListenError as problem:
            raise StartError(str(problem)) from None
        self._stack.push_async_callback(server.stop)
        # Before the logs are opened, so that /healthz can say that they are being opened, and a
        # taken port is found out before the broker is one of its cluster.
        if self.config.ottla_metrics_port >= 0:
            await self._serve_metrics()
        await node.start(ports)
        server.start()
        node.ready = True
        if self.metrics is not None:
            log.info(
                "metrics endpoint started",
                host=self.config.ottla_metrics_host,
                port=self.metrics.port,
            )

    async def _serve_metrics(self) -> None:
        from ottla.broker.metrics.metrics_server import (
            MetricsServer,  # its library costs start-up time
        )

        host, port = self.config.ottla_metrics_host, self.config.ottla_metrics_port
        self.metrics = MetricsServer(self.node, self.network)
        try:
            await self.metrics.start(host, port)
        except OSError as problem:
            raise StartError(f"cannot serve metrics on {host}:{port}: {why(problem)}") from None
        self._stack.push_async_callback(self.metrics.stop)

    async def stop(self) -> None:
        """Stop accepting clients, close the connections, flush and close the logs."""
        self.node.ready = False
        await self.node.lifecycle.hand_over()
        await self._stack.aclose()


def run_broker(static: Mapping[str, str], heart: Heart | None = None) -> int:
    """Run a broker until SIGTERM, SIGINT or SIGHUP; returns the exit status.

    With a heart it also ends when its supervisor does, and its id is in every line that it logs.
    """
    import uvloop

    from ottla.server.logging import configure_logging

    configure_logging(None if heart is None else int(static["node.id"]))
    raise_open_files_limit()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(static, heart))
    except KeyboardInterrupt:
        return 130


async def _run(static: Mapping[str, str], heart: Heart | None) -> int:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP, and that stays so
            loop.add_signal_handler(number, stopped.set)
    if heart is not None:
        heart.start(stopped.set)
    try:
        broker = RunningBroker(BrokerConfig.from_static(static))
    except ConfigError as problem:
        print(f"ottla: {problem}", file=sys.stderr)
        return 2
    ended: list[str] = []

    def end(reason: str) -> None:
        ended.append(reason)
        stopped.set()

    broker.node.lifecycle.on_end = end
    starting = loop.create_task(broker.start())
    stopping = loop.create_task(stopped.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.wait((starting,))
        return 0
    try:
        starting.result()
    except StartError as problem:
        print(f"ottla: {problem}", file=sys.stderr)
        return 1
    # What start-up made stays: the collector need not look at it again and again.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()
    # A request waits for the interpreter several times where a thread decodes something long.
    sys.setswitchinterval(SWITCH_SECONDS)
    if heart is not None:
        heart.ready()
    await stopping
    log.info("stopping")
    await broker.stop()
    log.info("stopped")
    for reason in ended:
        print(f"ottla: {reason}", file=sys.stderr)
    return 1 if ended else 0


def raise_open_files_limit() -> None:
    """Have as many open files as the system allows this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # macOS has a lower limit of its own than it says
            pass
