"""Children of the broker: they speak in lines, end when told, and disturb nothing in the parent."""

import asyncio
import json
import socket
import threading
from pathlib import Path

import uvloop

from ottla.broker.logs.child import Child


class ShutsDown:
    """Like PySpark's connections: they are shut down when they are forgotten."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def __del__(self) -> None:
        if self.connection.fileno() >= 0:
            self.connection.shutdown(socket.SHUT_RDWR)


async def converse(order: bytes = b"{}") -> bytes:
    child = await Child.start("ottla.log.recovery")
    child.stdin.write(order + b"\n")
    await child.stdin.drain()
    try:
        return await child.stdout.readline()
    finally:
        await child.end()
        assert not child.is_running


def test_a_child_answers_and_ends(tmp_path: Path) -> None:
    order = {"directory": str(tmp_path / "t-0"), "recovery_point": 0, "start_offset": 7}
    answer = json.loads(asyncio.run(converse(json.dumps(order).encode())))
    assert answer["end_offset"] == 7


def test_a_child_that_has_ended_can_be_killed_and_ended_again() -> None:
    async def story() -> None:
        child = await Child.start("ottla.log.recovery")
        child.kill()
        assert await child.stdout.readline() == b""
        await child.end()
        await child.end()
        child.kill()

    asyncio.run(story())


def test_what_other_threads_hold_is_not_cleared_in_a_child() -> None:
    """uvloop's own way to start a process does so, and shuts down connections of the parent."""
    ours, theirs = socket.socketpair()
    held = threading.local()
    held.connection = ShutsDown(ours)

    def run_loop() -> None:
        uvloop.run(converse())

    thread = threading.Thread(target=run_loop)
    thread.start()
    thread.join()
    theirs.settimeout(10)
    ours.sendall(b"still here")
    assert theirs.recv(100) == b"still here"
    ours.close()
    theirs.close()
