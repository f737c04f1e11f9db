"""What a broker writes is for its own user: folders 0700, files 0600, whatever the umask."""

import asyncio
import os
from pathlib import Path

from tests.broker.nodes import running, topic, write


def _modes(folder: Path) -> tuple[dict[str, int], dict[str, int]]:
    folders: dict[str, int] = {}
    files: dict[str, int] = {}
    for path in (folder, *folder.rglob("*")):
        kept = folders if path.is_dir() else files
        kept[str(path.relative_to(folder.parent))] = path.stat().st_mode & 0o777
    return folders, files


def test_only_the_owner_can_read_what_a_broker_writes(tmp_path: Path) -> None:
    async def live() -> None:
        async with running(tmp_path / "data", {"log.roll.ms": "1000000"}) as node:
            write(await topic(node, "orders"), 3)
            await node.log_manager.checkpoints.write_recovery_points()

    before = os.umask(0)
    try:
        asyncio.run(live())
    finally:
        os.umask(before)
    folders, files = _modes(tmp_path / "data")
    assert set(folders.values()) == {0o700}, folders
    assert set(files.values()) == {0o600}, files
    assert any(name.endswith(".log") for name in files)
    assert any(name.endswith("meta.properties") for name in files)
