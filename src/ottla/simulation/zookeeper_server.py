"""A simulated ZooKeeper: the tree, sessions, watches, and a quorum that can be lost.

Rules kept here:
1. Requests of a connection are executed in the order in which they were sent, each at once.
2. A watch fires once, and its event reaches the client before any answer that shows the change.
3. A session that is not heard from for its timeout expires, and its ephemeral nodes go. Without a
   quorum no request is answered and no session expires.
4. A snapshot that is put back is an older state of the tree; sessions begin anew.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo.exceptions import (  # type: ignore[import-untyped]  # kazoo has no types
    BadVersionError,
    KazooException,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
)

if TYPE_CHECKING:
    from ottla.simulation.loop import SimulatedLoop

ZOOKEEPER_HOST: Final = "zookeeper"
TICK_SECONDS: Final = 0.5


class Stat(NamedTuple):
    """What ZooKeeper says of a node."""

    czxid: int
    mzxid: int
    version: int


@dataclass(slots=True)
class Node:
    """A node of the tree."""

    content: bytes
    czxid: int
    mzxid: int
    version: int = 0
    owner: int = 0
    """The session, of an ephemeral node."""
    children: dict[str, None] = field(default_factory=dict)
    numbered: int = 0
    """How many sequential children it has had."""

    @property
    def stat(self) -> Stat:
        return Stat(self.czxid, self.mzxid, self.version)


class Operation(NamedTuple):
    """One request, or one operation of a multi."""

    name: str
    path: str
    content: bytes = b""
    version: int = -1
    ephemeral: bool = False
    sequence: bool = False
    watch: bool = False


@dataclass(slots=True)
class Session:
    """A client's session."""

    number: int
    timeout: float
    heard: float
    owner: str
    """The host that has it."""
    notify: Callable[[str, str], None] | None = None
    """Called with the kind and path of a watch that fired; None while it is not connected."""
    node_watches: set[str] = field(default_factory=set)
    child_watches: set[str] = field(default_factory=set)


class ZooKeeperServer:
    """The ensemble, as one."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.nodes: dict[str, Node] = {"/": Node(b"", 0, 0)}
        self.zxid = 0
        self.sessions: dict[int, Session] = {}
        self.has_quorum = True
        self._next_session = 0
        self._had_quorum_at = loop.time()

    def start(self) -> None:
        """Begin to expire sessions."""
        self._loop.call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now = self._loop.time()
        if self.has_quorum:
            for session in list(self.sessions.values()):
                if now - max(session.heard, self._had_quorum_at) > session.timeout:
                    self.end_session(session.number)
        self._loop.call_later(TICK_SECONDS, self._tick)

    def regain_quorum(self) -> None:
        """Sessions have their whole timeout again."""
        self.has_quorum = True
        self._had_quorum_at = self._loop.time()

    # Sessions -----------------------------------------------------------------------------

    def connect(
        self, number: int, timeout: float, owner: str, notify: Callable[[str, str], None]
    ) -> int:
        """A new session where the number is 0; the number of an old one; -1 where it is over."""
        now = self._loop.time()
        if number == 0:
            self._next_session += 1
            number = self._next_session
            self.sessions[number] = Session(number, timeout, now, owner, notify)
            return number
        session = self.sessions.get(number)
        if session is None:
            return -1
        session.heard, session.notify = now, notify
        return number

    def disconnect(self, number: int, notify: Callable[[str, str], None]) -> None:
        """A connection has ended; its watches go."""
        session = self.sessions.get(number)
        if session is not None and session.notify is notify:
            session.notify = None
            session.node_watches.clear()
            session.child_watches.clear()

    def hear(self, number: int) -> None:
        """A ping."""
        if number in self.sessions:
            self.sessions[number].heard = self._loop.time()

    def end_session(self, number: int) -> None:
        """Its ephemeral nodes go."""
        if self.sessions.pop(number, None) is None:
            return
        for path in [path for path, node in self.nodes.items() if node.owner == number]:
            self.zxid += 1
            self._delete(path)

    def end_sessions_of(self, owner: str) -> None:
        """Declare a host dead, with all processes that it has had."""
        for number in [one.number for one in self.sessions.values() if one.owner == owner]:
            self.end_session(number)

    # Requests -----------------------------------------------------------------------------

    def execute(self, number: int, operation: Operation) -> Any:
        """The result of a request; raises what ZooKeeper answers."""
        session = self.sessions[number]
        session.heard = self._loop.time()
        match operation.name:
            case "get":
                node = self._node(operation.path)
                return node.content, node.stat
            case "exists":
                if operation.watch:
                    session.node_watches.add(operation.path)
                found = self.nodes.get(operation.path)
                return None if found is None else found.stat
            case "get_children":
                node = self._node(operation.path)
                if operation.watch:
                    session.child_watches.add(operation.path)
                return list(node.children)
            case "sync":
                return operation.path
        self._check(operation)
        self.zxid += 1
        return self._apply(session, operation)

    def multi(self, number: int, operations: list[Operation]) -> list[Any]:
        """The results of all, or what each one failed with: then nothing has changed."""
        session = self.sessions[number]
        session.heard = self._loop.time()
        self.zxid += 1
        results: list[Any] = []
        fired: list[tuple[str, str]] = []
        before_it: dict[str, Node | None] = {}
        try:
            for operation in operations:
                self._check(operation)
                for path in (operation.path, _parent(operation.path)):
                    if path not in before_it:
                        before_it[path] = copy.deepcopy(self.nodes.get(path))
                results.append(self._apply(session, operation, fired))
        except KazooException as problem:
            for path, node in before_it.items():
                if node is None:
                    self.nodes.pop(path, None)
                else:
                    self.nodes[path] = node
            failed = len(results)
            before: list[Any] = [RolledBackError() for _ in range(failed)]
            after = [RuntimeInconsistency() for _ in operations[failed + 1 :]]
            return [*before, problem, *after]
        for kind, path in fired:
            self._fire_now(kind, path)
        return results

    def _node(self, path: str) -> Node:
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError
        return node

    def _check(self, operation: Operation) -> None:
        if operation.name == "create":
            self._node(_parent(operation.path))
            if not operation.sequence and operation.path in self.nodes:
                raise NodeExistsError
            return
        node = self._node(operation.path)
        if operation.version not in (-1, node.version):
            raise BadVersionError
        if operation.name == "delete" and node.children:
            raise NotEmptyError

    def _apply(
        self, session: Session, operation: Operation, fired: list[tuple[str, str]] | None = None
    ) -> Any:
        match operation.name:
            case "create":
                return self._create(session, operation, fired)
            case "set":
                node = self.nodes[operation.path]
                node.content = operation.content
                node.version += 1
                node.mzxid = self.zxid
                self._fire("node", operation.path, fired)
                return node.stat
            case "delete":
                self._delete(operation.path, fired)
        return True

    def _create(
        self, session: Session, operation: Operation, fired: list[tuple[str, str]] | None
    ) -> str:
        path = operation.path
        parent = self.nodes[_parent(path)]
        if operation.sequence:
            path += f"{parent.numbered:010}"
            parent.numbered += 1
        owner = session.number if operation.ephemeral else 0
        self.nodes[path] = Node(operation.content, self.zxid, self.zxid, owner=owner)
        parent.children[path.rpartition("/")[2]] = None
        self._fire("node", path, fired)
        self._fire("children", _parent(path), fired)
        return path

    def _delete(self, path: str, fired: list[tuple[str, str]] | None = None) -> None:
        del self.nodes[path]
        self.nodes[_parent(path)].children.pop(path.rpartition("/")[2], None)
        self._fire("node", path, fired)
        self._fire("children", path, fired)
        self._fire("children", _parent(path), fired)

    def _fire(self, kind: str, path: str, later: list[tuple[str, str]] | None) -> None:
        if later is None:
            self._fire_now(kind, path)
        else:
            later.append((kind, path))

    def _fire_now(self, kind: str, path: str) -> None:
        for session in self.sessions.values():
            watches = session.node_watches if kind == "node" else session.child_watches
            if path in watches:
                watches.discard(path)
                if session.notify is not None:
                    session.notify(kind, path)

    # Snapshots ----------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Node]:
        """The tree as it is, for a backup."""
        return copy.deepcopy(self.nodes)

    def restore(self, nodes: dict[str, Node]) -> None:
        """Put a backup back; no session is known any more."""
        self.nodes = copy.deepcopy(nodes)
        self.sessions.clear()


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"
