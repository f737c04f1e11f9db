"""The console's process: it listens, samples and serves until it is stopped.

Rules kept here:
1. It starts whether the cluster can be reached or not: pages say so, and come back by themselves.
2. Beyond loopback it does not serve without a login.
3. Under a supervisor (`supervised`) a line on stdout says the address once it serves, and the end
   of stdin ends the process.
"""

import asyncio
import os
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog
import uvicorn
from starlette.applications import Starlette

from ottla.console.app import application
from ottla.console.cluster import Cluster
from ottla.console.context import Console, templates
from ottla.console.history import History
from ottla.console.login import LOGIN_MODULES, Sessions, login_mechanism
from ottla.console.safety import is_loopback
from ottla.console.sampler import Sampler
from ottla.console.settings import ConsoleSettings, Login
from ottla.console.users import UsersFile

log = structlog.get_logger()

BACKLOG: Final = 512
KEEP_ALIVE_SECONDS: Final = 30
GRACE_SECONDS: Final = 3
MOST_REQUESTS: Final = 200
HISTORY_FILE: Final = "console-history.sqlite"


class ConsoleError(Exception):
    """The console cannot be started; the text says why."""


def check_login(settings: ConsoleSettings) -> None:
    """Refuse settings that would leave the console open, or that cannot work."""
    if settings.login is Login.NONE and not is_loopback(settings.host):
        raise ConsoleError(
            f"{settings.host} can be reached from other machines: give --users FILE (see ottla "
            "console user add), or --login sasl to use the brokers' own users"
        )
    if settings.login is not Login.SASL:
        return
    if settings.security is None or not settings.security.has_sasl:
        raise ConsoleError("--login sasl needs --command-config with a SASL security.protocol")
    if login_mechanism(settings.security) is None:
        # With a token of the console's own, any password would do.
        raise ConsoleError(
            f"--login sasl needs one of {', '.join(LOGIN_MODULES)} as sasl.mechanism in "
            "--command-config: others log in without the password of a user"
        )


class Parts:
    """What a running console is made of; `close` ends all of it."""

    def __init__(self, settings: ConsoleSettings) -> None:
        check_login(settings)
        users = None if settings.users_file is None else UsersFile(settings.users_file)
        self.cluster = Cluster(settings.bootstrap_servers, settings.security)
        self.sessions = Sessions(settings, self.cluster, users)
        self.console = Console(settings, templates())
        if settings.registry_url is not None:
            from ottla.registry.decoding import Decoder

            self.console.decoder = Decoder(settings.registry_url)
        self.sampler: Sampler | None = None
        if settings.data is not None:
            try:
                step = max(int(settings.sample_every), 1)
                self.console.history = History(settings.data / HISTORY_FILE, step)
            except OSError as problem:
                raise ConsoleError(f"cannot use {settings.data}: {problem.strerror}") from None
            self.sampler = Sampler(self.cluster, self.console.history, settings.sample_every)

    def app(self) -> Starlette:
        """The ASGI application."""
        return application(self.console, self.cluster, self.sessions)

    def close(self) -> None:
        """Stop sampling, and close all connections."""
        if self.sampler is not None:
            self.sampler.stop()
        if self.console.history is not None:
            self.console.history.close()
        self.sessions.close()
        self.cluster.close()


async def run_console(settings: ConsoleSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises ConsoleError, ConsoleUsersError."""
    parts = Parts(settings)
    try:
        with _listening(settings) as listener:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.set)
            if settings.supervised:
                loop.add_reader(sys.stdin.fileno(), _watch_stdin, stop)
            server = _server(settings, parts.app())
            listener.listen(BACKLOG)
            url = console_url(settings, listener.getsockname()[1])
            log.info("console started", url=url, bootstrap=settings.bootstrap_servers)
            if settings.supervised:
                print(url, flush=True)
            if parts.sampler is not None:
                parts.sampler.start()
            await _serve(server, listener, stop)
    finally:
        await asyncio.to_thread(parts.close)


def console_url(settings: ConsoleSettings, port: int) -> str:
    """Where a browser finds it."""
    host = settings.host
    if host in ("0.0.0.0", "::"):
        host = socket.gethostname()
    host = f"[{host}]" if ":" in host else host
    return f"{'https' if settings.has_tls else 'http'}://{host}:{port}/"


def _watch_stdin(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def _listening(settings: ConsoleSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as problem:
        listener.close()
        raise ConsoleError(
            f"cannot listen on {settings.host}:{settings.port}: {problem.strerror or problem}"
        ) from None
    return listener


class _Server(uvicorn.Server):
    """Signals are this process's own business."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def _server(settings: ConsoleSettings, app: Starlette) -> uvicorn.Server:
    try:
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_REQUESTS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACE_SECONDS,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.private_key,
        )
        config.load()
    except (OSError, ssl.SSLError) as problem:
        raise ConsoleError(f"cannot use {settings.certificate}: {problem}") from None
    return _Server(config)


async def _serve(server: uvicorn.Server, listener: socket.socket, stop: asyncio.Event) -> None:
    serving = asyncio.create_task(server.serve([listener]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await serving
    stopping.cancel()
