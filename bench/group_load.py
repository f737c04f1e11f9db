"""Loads on the group coordinator: many groups that commit, and one group that rebalances."""

import selectors
import socket
import time
from contextlib import ExitStack
from typing import BinaryIO, Self

from bench import group_protocol as protocol
from bench.client import Throughput
from testkit.errors import HarnessError
from testkit.probe import read_frame
from testkit.server import Server

COMMITTERS = 32  # connections, each of a group of its own
TOGETHER = 8  # commits that each has on their way
CHUNK = 65536
PATIENCE_SECONDS = 60
RETRY_SECONDS = 0.05
METADATA_BYTES = 60  # of a member: a subscription to a topic or two


def connect(server: Server) -> socket.socket:
    """A connection that sends small requests at once."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def prepare(server: Server, groups: list[bytes], topic: bytes) -> None:
    """Waits until every group has a coordinator that takes its commits."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    with connect(server) as connection, connection.makefile("rb") as answers:
        for group in groups:
            while True:
                connection.sendall(protocol.find_coordinator(group))
                found = protocol.error_of(read_frame(answers), 4) == 0
                connection.sendall(protocol.commit(group, topic, 0))
                frame = read_frame(answers)
                if found and protocol.data(frame) == protocol.committed(topic):
                    break
                if time.monotonic() > give_up:
                    raise HarnessError(f"{server.name} has no coordinator for {group.decode()}")
                time.sleep(RETRY_SECONDS)


class _Committer:
    """One connection: always some commits on their way until its share is done."""

    def __init__(self, server: Server, group: bytes, topic: bytes, share: int) -> None:
        self.socket = connect(server)
        self._request = protocol.commit(group, topic, 1)
        self._answer = protocol.committed(topic)
        self._to_send = share
        self._missing = b""
        self.left = share

    def send(self, count: int) -> None:
        """So many more commits, as far as there are any to be sent."""
        count = min(count, self._to_send)
        if count:
            self._to_send -= count
            self.socket.sendall(self._request * count)

    def receive(self) -> None:
        """Takes the answers that are there, and sends a commit for each."""
        data = self._missing + self.socket.recv(CHUNK)
        whole = len(data) // len(self._answer)
        end = whole * len(self._answer)
        if data[:end] != self._answer * whole or len(data) == len(self._missing):
            raise HarnessError("a commit was refused, or its connection closed")
        self._missing = data[end:]
        self.left -= whole
        self.send(whole)


def commits(server: Server, groups: list[bytes], topic: bytes, total: int) -> Throughput:
    """Commits of all groups at once."""
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        committers = []
        for group in groups:
            committer = _Committer(server, group, topic, total // len(groups))
            stack.enter_context(committer.socket)
            selector.register(committer.socket, selectors.EVENT_READ, committer)
            committers.append(committer)
        cpu = time.thread_time()
        began = time.monotonic()
        for committer in committers:
            committer.send(TOGETHER)
        busy = len(committers)
        while busy:
            ready = selector.select(PATIENCE_SECONDS)
            if not ready:
                raise HarnessError(f"{server.name} left commits unanswered")
            for key, _ in ready:
                key.data.receive()
                if key.data.left == 0:
                    selector.unregister(key.fileobj)
                    busy -= 1
        took = time.monotonic() - began
        cpu = time.thread_time() - cpu
    done = total // len(groups) * len(groups)
    return Throughput(messages=done, seconds=took, cpu=cpu, busiest_thread=cpu)


class _Member:
    def __init__(self, connection: socket.socket, answers: BinaryIO) -> None:
        self.connection = connection
        self.answers = answers
        self.member_id = b""


class Group:
    """A classic group whose members are all in this process, each with its connection."""

    def __init__(self, server: Server, name: bytes, size: int) -> None:
        self._name = name
        self._stack = ExitStack()
        self._members = []
        for _ in range(size):
            connection = self._stack.enter_context(connect(server))
            answers = self._stack.enter_context(connection.makefile("rb"))
            self._members.append(_Member(connection, answers))
        self._generation = protocol.NO_GENERATION
        self._leader = b""
        self._metadata = bytes(METADATA_BYTES)

    def form(self) -> None:
        """Joins all members for the first time; new groups wait a while for more of them."""
        for member in self._members:
            self._send_join(member)
        self._finish_join()

    def rebalance(self) -> float:
        """The leader joins again, all others are notified and follow; seconds till all have theirs.

        The others ask at once whether they must join: how often real members do is their choice.
        """
        leader = next(each for each in self._members if each.member_id == self._leader)
        others = [each for each in self._members if each is not leader]
        began = time.monotonic()
        self._send_join(leader)
        unaware = others
        while unaware:
            for member in unaware:
                beat = protocol.heartbeat(self._name, self._generation, member.member_id)
                member.connection.sendall(beat)
            unaware = [each for each in unaware if not self._has_heard(each)]
        for member in others:
            self._send_join(member)
        self._finish_join()
        return time.monotonic() - began

    def _send_join(self, member: _Member) -> None:
        member.connection.sendall(protocol.join(self._name, member.member_id, self._metadata))

    def _has_heard(self, member: _Member) -> bool:
        error = protocol.error_of(read_frame(member.answers), 8)
        if error not in (0, protocol.REBALANCE_IN_PROGRESS):
            raise HarnessError(f"a heartbeat was refused: error code {error}")
        return error == protocol.REBALANCE_IN_PROGRESS

    def _finish_join(self) -> None:
        """All have asked to join: waits for their answers, and then for their assignments."""
        for member in self._members:
            answer = protocol.joined(read_frame(member.answers))
            member.member_id = answer.member_id
            self._generation, self._leader = answer.generation, answer.leader
            if answer.members and len(answer.members) != len(self._members):
                raise HarnessError(f"a group of {len(answer.members)}, not {len(self._members)}")
        plan = [(member.member_id, member.member_id[-8:] * 8) for member in self._members]
        for member in self._members:
            mine = plan if member.member_id == self._leader else []
            member.connection.sendall(
                protocol.sync(self._name, self._generation, member.member_id, mine)
            )
        for member, (_, wanted) in zip(self._members, plan, strict=True):
            if protocol.assigned(read_frame(member.answers)) != wanted:
                raise HarnessError("a member got another client's assignment")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
