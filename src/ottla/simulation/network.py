"""The simulated network: hosts, connections between them, and what happens to bytes on their way.

Rules kept here:
1. Bytes of one direction of a connection arrive in order. Connections overtake each other.
2. A sender's socket takes as many bytes as its buffer has room for; the rest waits for the reader.
3. What sendfile was given is the file's own pages: it is read when it arrives, as in the kernel.
4. A cut holds back what is sent in that direction until it is healed. Neither end is notified.
5. A process that dies resets its connections. A host that loses power does not: its peers find out
   when they send to it once it is up again.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from random import Random
from typing import TYPE_CHECKING, Final

from ottla.simulation.process import SimulatedProcess, current_process

if TYPE_CHECKING:
    from ottla.simulation.loop import SimulatedLoop

SOCKET_BUFFERS: Final = (16 << 10, 64 << 10, 256 << 10, 1 << 20)
LARGEST_CHUNK: Final = 64 << 10


class FileChunk:
    """A stretch of a file on its way: its bytes are those that the file has when it arrives."""

    __slots__ = ("_fd", "_position", "size")

    def __init__(self, fd: int, position: int, size: int) -> None:
        self._fd = os.dup(fd)
        self._position = position
        self.size = size

    def take(self) -> bytes:
        """Read it, and let go of the file."""
        data = os.pread(self._fd, self.size, self._position)
        os.close(self._fd)
        return data.ljust(self.size, b"\0")


class BytesChunk:
    """Bytes on their way."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def take(self) -> bytes:
        """They are copied when they are sent."""
        return self._data


class Endpoint:
    """One end of a connection: what arrived, and how much of what was sent is not read yet."""

    def __init__(self, network: Network, process: SimulatedProcess, fd: int, room: int) -> None:
        self.network = network
        self.process = process
        self.fd = fd
        self.peer: Endpoint
        self.arrived = bytearray()
        self.room = room
        """How many bytes may be under way or unread."""
        self.under_way = 0
        self.ended = False
        """The peer sends nothing more."""
        self.broken = False
        self.closed = False
        self.sent_end = False
        self.not_before = 0.0
        """When the last thing that was sent arrives."""
        self.on_arrival: Callable[[], None] | None = None
        self.context: Context = copy_context()

    def arrive(self, chunk: FileChunk | BytesChunk) -> None:
        """Bytes are here."""
        data = chunk.take()
        if self.closed or self.broken:
            self.network.reset(self.peer)
            return
        self.arrived += data
        self.noticed()

    def noticed(self) -> None:
        """Something has changed here: notify the watchers."""
        self.network.loop.look_at(self.fd)
        if self.on_arrival is not None:
            self.network.loop.call_soon(self.on_arrival, context=self.context)

    def was_read(self, count: int) -> None:
        """The process took this many bytes."""
        self.peer.under_way -= count
        self.network.loop.look_at(self.peer.fd)

    def send_chunk(self, chunk: FileChunk | BytesChunk) -> None:
        """Let it travel."""
        self.under_way += chunk.size
        peer = self.peer
        self.network.travel(self, lambda: peer.arrive(chunk))

    def send_end(self) -> None:
        """Tell the peer that nothing more comes."""
        if self.sent_end:
            return
        self.sent_end = True
        peer = self.peer

        def end() -> None:
            peer.ended = True
            peer.noticed()

        self.network.travel(self, end)

    def close(self) -> None:
        """The process lets go of it."""
        if self.closed:
            return
        self.closed = True
        self.network.forget(self)
        if self.arrived:
            self.network.reset(self.peer)
        else:
            self.send_end()


class SimulatedSocket:
    """The part of a socket's interface that the broker's connections use."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._end = endpoint

    def fileno(self) -> int:
        return -1 if self._end.closed else self._end.fd

    def setblocking(self, flag: bool) -> None:
        assert not flag

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Nothing of it changes what is simulated."""

    def getpeername(self) -> tuple[str, int]:
        return self._end.peer.process.host, 1

    def recv_into(self, buffer: memoryview) -> int:
        end = self._end
        if end.broken:
            raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        if not end.arrived:
            if end.ended:
                return 0
            raise BlockingIOError
        count = min(len(buffer), len(end.arrived), end.network.share(len(end.arrived)))
        buffer[:count] = end.arrived[:count]
        del end.arrived[:count]
        end.was_read(count)
        return count

    def _room(self) -> int:
        end = self._end
        if end.broken or end.closed or end.sent_end:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        room = end.room - end.under_way
        if room <= 0:
            raise BlockingIOError
        return room

    def send(self, data: bytes | memoryview, flags: int = 0) -> int:
        count = min(self._room(), len(data))
        for start in range(0, count, LARGEST_CHUNK):
            piece = bytes(data[start : min(start + LARGEST_CHUNK, count)])
            self._end.send_chunk(BytesChunk(piece))
        return count

    def sendmsg(
        self, buffers: Sequence[bytes | memoryview], ancillary: object = (), flags: int = 0
    ) -> int:
        return self.send(b"".join(buffers))

    def send_file(self, fd: int, position: int, count: int) -> int:
        """What os.sendfile does."""
        there = os.fstat(fd).st_size - position
        count = min(self._room(), count, max(there, 0))
        for start in range(0, count, LARGEST_CHUNK):
            size = min(LARGEST_CHUNK, count - start)
            self._end.send_chunk(FileChunk(fd, position + start, size))
        return count

    def close(self) -> None:
        self._end.close()


class SimulatedListener:
    """A listening socket."""

    def __init__(self, network: Network, process: SimulatedProcess, fd: int, port: int) -> None:
        self._network = network
        self.process = process
        self.fd = fd
        self.port = port
        self.waiting: deque[Endpoint] = deque()
        self.open = True

    def fileno(self) -> int:
        return self.fd

    def listen(self, backlog: int) -> None:
        self._network.listeners[self.port] = self

    def getsockname(self) -> tuple[str, int]:
        return self.process.host, self.port

    def accept(self) -> tuple[SimulatedSocket, tuple[str, int]]:
        if not self.waiting:
            raise BlockingIOError
        endpoint = self.waiting.popleft()
        return SimulatedSocket(endpoint), (endpoint.peer.process.host, 1)

    def close(self) -> None:
        self.open = False
        if self._network.listeners.get(self.port) is self:
            del self._network.listeners[self.port]
        for endpoint in self.waiting:
            endpoint.close()


class Network:
    """All connections, and which directions are cut."""

    def __init__(self, loop: SimulatedLoop, chance: Random) -> None:
        self.loop = loop
        self.chance = chance
        self.listeners: dict[int, SimulatedListener] = {}
        self.latency = (0.000_1, 0.002)
        self._cut: set[tuple[str, str]] = set()
        self._held: dict[tuple[str, str], list[Callable[[], None]]] = {}
        self._ends: dict[int, Endpoint] = {}
        self._listening: dict[int, SimulatedListener] = {}
        self._next_fd = -10
        self.on_arrival: Callable[[tuple[str, str]], None] = lambda way: None
        loop.can_read = self._can_read
        loop.can_write = self._can_write

    # Making connections -------------------------------------------------------------------

    def _new_fd(self) -> int:
        """Below zero, so that none is a real one."""
        self._next_fd -= 1
        return self._next_fd

    def bind(self, port: int) -> SimulatedListener:
        """A socket of the running process that is about to listen."""
        listener = SimulatedListener(self, current_process(), self._new_fd(), port)
        self._listening[listener.fd] = listener
        return listener

    async def connect(self, port: int) -> Endpoint:
        """Connect from the running process; it waits as long as the way is cut."""
        process = current_process()
        arrived = self.loop.create_future()
        host = self.host_of(port)
        self._send_over((process.host, host), lambda: _complete(arrived))
        await arrived
        listener = self.listeners.get(port)
        if listener is None or not listener.process.alive:
            await self._back(host, process.host)
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        room = self.chance.choice(SOCKET_BUFFERS)
        mine = Endpoint(self, process, self._new_fd(), room)
        theirs = Endpoint(self, listener.process, self._new_fd(), room)
        mine.peer, theirs.peer = theirs, mine
        self._ends[mine.fd], self._ends[theirs.fd] = mine, theirs
        listener.waiting.append(theirs)
        self.loop.look_at(listener.fd)
        await self._back(host, process.host)
        return mine

    async def _back(self, one: str, other: str) -> None:
        arrived = self.loop.create_future()
        self._send_over((one, other), lambda: _complete(arrived))
        await arrived

    def host_of(self, port: int) -> str:
        """Which host a port belongs to: each broker has its own."""
        return f"host-{port}"

    # Bytes on their way -------------------------------------------------------------------

    def delay(self) -> float:
        """How long something travels."""
        delay = self.chance.uniform(*self.latency)
        return delay * 20 if self.chance.random() < 0.01 else delay

    def share(self, size: int) -> int:
        """How much of what has arrived one call gets."""
        return self.chance.randint(1, size) if self.chance.random() < 0.02 else size

    def travel(self, sender: Endpoint, arrive: Callable[[], None]) -> None:
        """Let something arrive at the other end, after all that was sent before."""
        way = (sender.process.host, sender.peer.process.host)
        when = max(sender.not_before, self.loop.time() + self.delay())
        sender.not_before = when
        self.loop.call_at(when, self._pass, way, arrive, context=Context())

    def deliver(self, one: str, other: str, not_before: float, arrive: Callable[[], None]) -> float:
        """Let something arrive at a host, not before a time; returns when it does, if not cut."""
        when = max(not_before, self.loop.time() + self.delay())
        self.loop.call_at(when, self._pass, (one, other), arrive, context=Context())
        return when

    def _send_over(self, way: tuple[str, str], arrive: Callable[[], None]) -> None:
        self.loop.call_later(self.delay(), self._pass, way, arrive, context=Context())

    def _pass(self, way: tuple[str, str], arrive: Callable[[], None]) -> None:
        held = self._held.get(way)
        if way in self._cut or held:
            self._held.setdefault(way, []).append(arrive)
        else:
            self.on_arrival(way)
            arrive()

    def cut(self, one: str, other: str) -> None:
        """Hold back what one host sends to another."""
        self._cut.add((one, other))

    def heal(self, one: str, other: str) -> None:
        """Let it arrive again."""
        self._cut.discard((one, other))
        held = self._held.pop((one, other), [])
        for arrive in held:
            arrive()

    def heal_all(self) -> None:
        """No way is cut any more."""
        for one, other in sorted(self._cut):
            self.heal(one, other)

    def is_cut(self, one: str, other: str) -> bool:
        """Whether nothing gets from one host to another."""
        return (one, other) in self._cut

    # Ends ---------------------------------------------------------------------------------

    def reset(self, end: Endpoint) -> None:
        """Tell one end that the connection is broken."""
        if end.broken or end.closed:
            return

        def broken() -> None:
            end.broken = True
            end.noticed()

        self.travel(end.peer, broken)

    def forget(self, end: Endpoint) -> None:
        """It is closed."""
        self._ends.pop(end.fd, None)

    def end_process(self, process: SimulatedProcess, *, silently: bool) -> None:
        """All its sockets are gone."""
        for listener in list(self._listening.values()):
            if listener.process is process:
                listener.open = False
                del self._listening[listener.fd]
                if self.listeners.get(listener.port) is listener:
                    del self.listeners[listener.port]
        for end in list(self._ends.values()):
            if end.process is process:
                end.closed = True
                self.forget(end)
                if not silently:
                    self.reset(end.peer)

    def end_of(self, fd: int) -> Endpoint:
        """The endpoint with a descriptor."""
        return self._ends[fd]

    def send_file(self, fd: int, file: int, position: int, count: int) -> int:
        """What os.sendfile does."""
        return SimulatedSocket(self._ends[fd]).send_file(file, position, count)

    def is_gone(self, fd: int) -> bool:
        """Whether poll would say that the connection is broken."""
        end = self._ends.get(fd)
        return end is None or end.broken

    def _can_read(self, fd: int) -> bool:
        listener = self._listening.get(fd)
        if listener is not None:
            return bool(listener.waiting)
        end = self._ends.get(fd)
        return end is not None and (bool(end.arrived) or end.ended or end.broken)

    def _can_write(self, fd: int) -> bool:
        end = self._ends.get(fd)
        return end is not None and (end.under_way < end.room or end.broken)


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
