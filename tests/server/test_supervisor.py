"""The supervisor of `--workers`: what happens to one worker is not the end of the others."""

import asyncio
import errno
from pathlib import Path

import pytest

from ottla.server.supervisor import Supervisor, _Worker
from testkit.waiting import stretched


def supervisor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Supervisor, _Worker]:
    """One whose worker has been ready once; it keeps no store."""
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(folder)}
    made = Supervisor(settings, 1)

    async def declare_dead(_: _Worker) -> None:
        pass

    monkeypatch.setattr(made, "_declare_dead", declare_dead)
    (worker,) = made._workers
    worker.was_ready = True
    return made, worker


def test_a_worker_for_which_there_is_no_process_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = 0

    async def story() -> None:
        watching, worker = supervisor(tmp_path, monkeypatch)
        worker.pause = 0.01

        async def live(_: _Worker) -> int:
            nonlocal lives
            lives += 1
            if lives < 3:
                raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
            watching.stop()
            return 0

        monkeypatch.setattr(watching, "_live", live)
        await watching._keep_alive(worker)
        assert watching._status == 0

    asyncio.run(story())
    assert lives == 3


def test_the_end_does_not_wait_for_the_pause_of_a_worker_that_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        watching, worker = supervisor(tmp_path, monkeypatch)
        worker.pause = 600

        async def live(_: _Worker) -> int:
            asyncio.get_running_loop().call_later(0.05, watching.stop)
            return 1

        monkeypatch.setattr(watching, "_live", live)
        async with asyncio.timeout(stretched(30)):
            await watching._keep_alive(worker)

    asyncio.run(story())
