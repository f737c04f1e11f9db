"""The child that recovers logs: one log an order; a child that dies is replaced."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.logs.recovery_process import RecoveryProcess


def order(directory: Path) -> dict[str, object]:
    return {"directory": str(directory), "recovery_point": 0, "start_offset": 7}


async def recover(process: RecoveryProcess, directory: Path) -> dict[str, Any]:
    answer = await process.recover(order(directory))
    assert answer is not None
    return answer


def test_one_child_recovers_many_logs(tmp_path: Path) -> None:
    async def story() -> None:
        process = RecoveryProcess()
        for number in range(3):
            answer = await recover(process, tmp_path / f"t-{number}")
            assert (answer["start_offset"], answer["end_offset"]) == (7, 7)
        child = process._child
        assert child is not None
        await process.end()
        assert not child.is_running
        await process.end()

    asyncio.run(story())


def test_a_child_that_died_is_replaced(tmp_path: Path) -> None:
    async def story() -> None:
        process = RecoveryProcess()
        await recover(process, tmp_path / "t-0")
        assert process._child is not None
        process._child.kill()
        assert "error" not in await recover(process, tmp_path / "t-1")
        await process.end()

    asyncio.run(story())


def test_a_log_that_every_child_dies_of_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        process = RecoveryProcess()
        with monkeypatch.context() as patched:
            patched.setattr("ottla.broker.logs.child.sys.executable", "/bin/false")
            answer = await recover(process, tmp_path / "t-0")
        assert "ended unexpectedly" in answer["error"]
        assert "error" not in await recover(process, tmp_path / "t-1")
        await process.end()

    asyncio.run(story())


def test_a_log_that_cannot_be_recovered_is_an_answer(tmp_path: Path) -> None:
    (tmp_path / "t-0").write_text("not a folder")

    async def story() -> None:
        process = RecoveryProcess()
        assert "Not a directory" in (await recover(process, tmp_path / "t-0"))["error"]
        await process.end()

    asyncio.run(story())


def test_a_log_that_is_left_is_worked_on_no_more(tmp_path: Path) -> None:
    async def story() -> None:
        process = RecoveryProcess()
        asked = asyncio.create_task(process.recover(order(tmp_path / "t-0")))
        await asyncio.sleep(0)
        await process.leave({str(tmp_path / "t-1")})
        assert process._directory is not None
        await process.leave({str(tmp_path / "t-0")})
        assert await asked is None
        assert not (tmp_path / "t-0").exists()
        assert "error" not in await recover(process, tmp_path / "t-1")
        await process.end()

    asyncio.run(story())
