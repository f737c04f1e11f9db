"""`ottla serve --workers N`: brokers of one machine, supervised and restarted.

Rules kept here:
1. The supervisor is the authority on life. A worker that is silent for `broker.session.timeout.ms`
   is killed (SIGKILL) and reaped, and only then declared dead in the store: so no broker that was
   declared dead can still answer anyone. One that has not spoken yet is in no store and leads
   nothing: it gets longer, for a busy machine may take its time to start Python.
2. A worker that dies is started again, later and later if it dies soon. One that cannot even start
   the first time ends all of them.
3. The workers authenticate to each other with a password that is made at each start, handed to them
   on stdin and kept nowhere.
4. The supervisor owns the data folder. When the supervisor ends, however, the workers do.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import sys
import time
from collections.abc import Mapping
from typing import Final

import structlog

from ottla.broker.metadata.stores import METADATA_FILE, session_owner
from ottla.config import BrokerConfig, ConfigError
from ottla.log.storage.files import Files
from ottla.log.storage.folder import DataFolder, FolderError
from ottla.metadata.store import StoreError
from ottla.metadata.stores.sqlite_store import SqliteStore
from ottla.server.listening import ListenError, check_free
from ottla.server.worker import READY
from ottla.server.workers import STORE_FILE, common_folder, left_out, worker_settings

log = structlog.get_logger()

SUPERVISOR: Final = "supervisor"
SECOND_LOOK_SECONDS: Final = 0.5
FIRST_WORD_SECONDS: Final = 60.0
FIRST_PAUSE_SECONDS: Final = 0.2
LONGEST_PAUSE_SECONDS: Final = 10.0
LIVED_LONG_SECONDS: Final = 30.0


class _Worker:
    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self.id = int(settings["node.id"])
        self.child: asyncio.subprocess.Process | None = None
        self.was_ready = False
        self.has_spoken = False  # in this life
        self.pause = FIRST_PAUSE_SECONDS


class Supervisor:
    """Runs the workers."""

    def __init__(self, static: Mapping[str, str], count: int) -> None:
        password = secrets.token_urlsafe(32)
        self._workers = [
            _Worker(worker_settings(static, number, password)) for number in range(count)
        ]
        self._silence = BrokerConfig.from_static(static).broker_session_timeout_ms / 1000
        self._folder = DataFolder(common_folder(static), Files())
        self._store: SqliteStore
        self._told_to_stop = asyncio.Event()
        self._status = 0

    async def run(self) -> int:
        """Run until told to stop; returns the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self.stop)
        try:
            for worker in self._workers:
                check_free(BrokerConfig.from_static(worker.settings))
            self._folder.lock()
            if (self._folder.path / METADATA_FILE).exists():
                raise FolderError(
                    f"{self._folder.path} is the data folder of a single broker (it has "
                    f"{METADATA_FILE}); choose another one with --data"
                )
            self._warn_of_others()
            path = self._folder.path / STORE_FILE
            self._store = await SqliteStore.open(path, SUPERVISOR)
        except (ListenError, FolderError, StoreError) as problem:
            print(f"ottla: {problem}", file=sys.stderr)
            return 1
        try:
            await asyncio.gather(*(self._keep_alive(worker) for worker in self._workers))
        finally:
            for worker in self._workers:
                await _end(worker.child)
            await self._store.close()
            self._folder.unlock()
        return self._status

    def _warn_of_others(self) -> None:
        """Fewer workers than before: the data that only the others have is unavailable: log
        that."""
        names = [path.name for path in self._folder.path.iterdir() if path.is_dir()]
        if others := left_out(names, [worker.id for worker in self._workers]):
            log.warning(
                "data folder has data of brokers that are not started; raise --workers to start "
                "them",
                brokers=others,
            )

    def stop(self) -> None:
        """Let all workers end."""
        self._told_to_stop.set()
        for worker in self._workers:
            if worker.child is not None and worker.child.returncode is None:
                worker.child.terminate()

    async def _keep_alive(self, worker: _Worker) -> None:
        while not self._told_to_stop.is_set():
            began = time.monotonic()
            try:
                status = await self._live(worker)
            except OSError as problem:  # no memory, or too many processes: the others keep running
                log.error("failed to start a worker process", broker=worker.id, reason=str(problem))
                await _end(worker.child)
                status = 1
            await self._declare_dead(worker)
            if self._told_to_stop.is_set():
                self._status = self._status or max(status, 0)
            elif not worker.was_ready:
                log.error(
                    "worker failed to start; stopping all workers", broker=worker.id, status=status
                )
                self._status = status if status > 0 else 1
                self.stop()
            else:
                await self._pause(worker, time.monotonic() - began, status)

    async def _pause(self, worker: _Worker, lived: float, status: int) -> None:
        if lived > LIVED_LONG_SECONDS:
            worker.pause = FIRST_PAUSE_SECONDS
        log.error("worker died; restarting", broker=worker.id, status=status)
        try:
            async with asyncio.timeout(worker.pause):
                await self._told_to_stop.wait()
        except TimeoutError:
            pass
        worker.pause = min(worker.pause * 2, LONGEST_PAUSE_SECONDS)

    async def _live(self, worker: _Worker) -> int:
        """One life of a worker, from its start until it is reaped."""
        worker.has_spoken = False
        child = worker.child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",  # the working directory is not where modules come from
            "-m",
            "ottla.server.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdin is not None
        child.stdin.write(json.dumps(worker.settings).encode() + b"\n")
        if self._told_to_stop.is_set():
            child.terminate()
        while beats := await self._hear(worker, child):
            worker.has_spoken = True
            if READY in beats and not worker.was_ready:
                worker.was_ready = True
                if all(each.was_ready for each in self._workers):
                    log.info("all workers started", workers=len(self._workers))
        return await child.wait()

    async def _hear(self, worker: _Worker, child: asyncio.subprocess.Process) -> bytes:
        """What the worker has said; nothing where it has ended, if need be by us."""
        assert child.stdout is not None
        silence = self._silence if worker.has_spoken else max(self._silence, FIRST_WORD_SECONDS)
        # The second look is for a supervisor that was stopped itself: beats wait in the pipe then.
        for patience in (silence, SECOND_LOOK_SECONDS):
            try:
                async with asyncio.timeout(patience):
                    return await child.stdout.read(4096)
            except TimeoutError:
                pass
        log.error("worker is not responding; killing it", broker=worker.id, seconds=silence)
        await _end(child)
        return b""

    async def _declare_dead(self, worker: _Worker) -> None:
        try:
            await self._store.declare_dead(session_owner(worker.id))
        except StoreError as problem:
            log.error(
                "failed to end a dead worker's session", broker=worker.id, reason=str(problem)
            )


async def _end(child: asyncio.subprocess.Process | None) -> None:
    if child is not None and child.returncode is None:
        try:
            child.kill()
        except ProcessLookupError:
            pass
        await child.wait()


def run_supervised(static: Mapping[str, str], count: int) -> int:
    """Run this number of brokers until SIGTERM, SIGINT or SIGHUP; returns the exit status."""
    from ottla.server.logging import configure_logging

    configure_logging()
    try:
        supervisor = Supervisor(static, count)
    except ConfigError as problem:
        print(f"ottla: {problem}", file=sys.stderr)
        return 2
    return asyncio.run(supervisor.run())
