"""The registry's process: the topic is read, the election joined, then HTTP is served.

Rules kept here:
1. HTTP is served once everything that the topic held at the start is read: no client is told that a
   schema does not exist because it was not read yet.
2. Under a supervisor (`supervised`) a broker that is not there yet is waited for, a line on stdout
   says the address once it serves, and the end of stdin ends the process.
"""

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from msgspec import Struct

from ottla.client import ClientSettings, KafkaError, NoBroker
from ottla.client.security import ClientSecurity
from ottla.registry.election import Election, Identity
from ottla.registry.errors import RegistryError
from ottla.registry.forwarding import Forwarder
from ottla.registry.languages.checker import TIME_LIMIT_SECONDS, Checker
from ottla.registry.rest import application
from ottla.registry.security import load_users
from ottla.registry.service import Service
from ottla.registry.store import SchemaStore

log = structlog.get_logger()

PAUSE_SECONDS: Final = 0.1
KEEP_ALIVE_SECONDS: Final = 65
GRACE_SECONDS: Final = 5
BACKLOG: Final = 2048


class RegistrySettings(Struct, frozen=True, kw_only=True):
    """How a registry is run."""

    bootstrap_servers: str
    host: str = "127.0.0.1"
    port: int = 8081
    topic: str = "_schemas"
    group: str = "schema-registry"
    advertised_host: str | None = None
    """Where other registries reach this one."""
    alone: bool = False
    """There is no other registry: no election."""
    users_file: Path | None = None
    certificate: Path | None = None
    private_key: Path | None = None
    ca_file: Path | None = None
    """Certificates that other registries' are checked with."""
    time_limit: float = TIME_LIMIT_SECONDS
    """Seconds that the check of a schema may take."""
    supervised: bool = False
    security: ClientSecurity | None = None
    """How to authenticate to the brokers."""


class RegistryListenError(Exception):
    """The address cannot be listened on; the text says why."""


async def run_registry(settings: RegistrySettings) -> None:
    """Run until SIGTERM or SIGINT. Raises KafkaError, StoreError, UsersError or ListenError."""
    users = None if settings.users_file is None else load_users(settings.users_file)
    with _listening(settings) as listener:
        port: int = listener.getsockname()[1]
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if settings.supervised:
            loop.add_reader(sys.stdin.fileno(), _watch_stdin, stop)
        service = Service(Checker(settings.time_limit))
        client = ClientSettings(
            bootstrap_servers=settings.bootstrap_servers,
            client_id="schema-registry",
            security=settings.security,
        )
        service.store = SchemaStore(client, settings.topic, service.on_read)
        forwarder = Forwarder(None if settings.ca_file is None else str(settings.ca_file))
        try:
            end = await _opened(service.store, stop, patient=settings.supervised)
            if stop.is_set():
                return
            await service.caught_up(end - 1)
            election = _election(settings, client, service, port)
            server = _server(settings, application(service, forwarder, users))
            listener.listen(BACKLOG)  # before it is said: who reads the line connects at once
            log.info("registry started", url=_identity(settings, port).url, topic=settings.topic)
            if settings.supervised:
                print(_identity(settings, port).url, flush=True)
            try:
                await _serve(server, listener, stop)
            finally:
                if election is not None:
                    await asyncio.to_thread(election.stop)
        finally:
            forwarder.close()
            await service.checker.close()
            await service.store.stop()


def _watch_stdin(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def _listening(settings: RegistrySettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as problem:
        listener.close()
        raise RegistryListenError(
            f"cannot listen on {settings.host}:{settings.port}: {problem.strerror or problem}"
        ) from None
    return listener


async def _opened(store: SchemaStore, stop: asyncio.Event, *, patient: bool) -> int:
    while True:
        try:
            return await store.start()
        except KafkaError as problem:
            is_away = problem.retriable or isinstance(problem, NoBroker)
            if not (patient and is_away):
                raise
            log.debug("waiting for a broker", reason=str(problem))
        try:
            async with asyncio.timeout(PAUSE_SECONDS):
                await stop.wait()
            return 0
        except TimeoutError:
            pass


def _identity(settings: RegistrySettings, port: int) -> Identity:
    host = settings.advertised_host or settings.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    return Identity(host, port, "http" if settings.certificate is None else "https")


def _election(
    settings: RegistrySettings, client: ClientSettings, service: Service, port: int
) -> Election | None:
    if settings.alone:
        service.write_alone()
        return None
    loop = asyncio.get_running_loop()
    outcome: list[asyncio.Task[None]] = []

    async def take(writer: Identity | None, is_me: bool) -> None:
        while True:
            try:
                await service.elected(writer, is_me)
                return
            except RegistryError as problem:
                log.warning("cannot write as the elected writer; retrying", reason=str(problem))
                await asyncio.sleep(PAUSE_SECONDS)

    def changed(writer: Identity | None, is_me: bool) -> None:
        for task in outcome:
            task.cancel()
        outcome[:] = [loop.create_task(take(writer, is_me))]

    def on_change(writer: Identity | None, is_me: bool) -> None:
        loop.call_soon_threadsafe(changed, writer, is_me)

    election = Election(client, settings.group, _identity(settings, port), on_change)
    service.holds_lease = lambda: election.holds_lease
    election.start()
    return election


class _Server(uvicorn.Server):
    """Signals are this process's own business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def _server(settings: RegistrySettings, app: object) -> uvicorn.Server:
    try:
        config = uvicorn.Config(
            app,  # type: ignore[arg-type] # a callable of our own types
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.private_key,
        )
        config.load()
    except (OSError, ssl.SSLError) as problem:
        raise RegistryListenError(f"cannot use {settings.certificate}: {problem}") from None
    return _Server(config)


async def _serve(server: uvicorn.Server, listener: socket.socket, stop: asyncio.Event) -> None:
    serving = asyncio.create_task(server.serve([listener]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    stopping.cancel()
