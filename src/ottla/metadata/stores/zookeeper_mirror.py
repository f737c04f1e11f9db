"""The documents of a ZooKeeper store in memory, and what a commit changes in them. Pure.

1. A mirror is exact as of one commit, the one with its `number` and `token`. A commit is judged
   here, against the mirror, and written under the condition that the head still has that number: so
   no other condition needs to be sent, and a version or an absence is never checked twice.
2. The one thing that changes without a commit is that registered documents vanish. So what relies
   on one that exists checks it in the write; what relies on its absence need not, for none appears
   without a commit.
3. Commits that wait at the same time are judged one after the other on one draft, each all or
   nothing, and written together: as one entry with all of their changes in order.
4. A new document goes into a node that has room, or into a new one: which, is in the entry. A large
   one does not stay with others.
5. Changes are applied in the order of numbers. One that says another epoch than is known here, or
   changes what is no longer known, shows a registration whose end was not seen.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from ottla.metadata.store import Change, Check, Conflict, Create, Delete, Document, Op, Put, Update
from ottla.metadata.stores.zookeeper_nodes import NEW, Entry, Layout, encode_documents

DOCUMENTS_IN_A_NODE = 64
# Beyond this a node takes no more documents, and a document of this size has a node of its own.
LARGE = 16_384


class Do(Enum):
    """What is done to a node."""

    CREATE = "create"
    REGISTER = "register"
    SET = "set"
    DELETE = "delete"
    CHECK = "check"


class Write(NamedTuple):
    """One operation of a multi; a version of -1 is any, as ZooKeeper has it."""

    do: Do
    path: str
    content: bytes = b""
    version: int = -1


class Mirror:
    """All documents as of one commit."""

    def __init__(self, number: int = 0, token: str = "") -> None:
        self.number = number
        self.token = token
        self.documents: dict[str, Document] = {}
        self.registered: set[str] = set()
        # Where the others are kept: the node of each key, and the keys of each node.
        self.places: dict[str, int] = {}
        self.nodes: dict[int, set[str]] = {}

    def apply(self, number: int, entry: Entry) -> list[Change]:
        """Apply the next commit; returns the changes to announce.

        After `load` some documents are newer than the first commits taken in: these do nothing to
        them, and what made them newer follows.
        """
        self.number, self.token = number, entry.writer
        changed: list[Change] = []
        for change in entry.changes:
            key, old = change.key, self.documents.get(change.key)
            if old is not None and old.epoch > change.epoch:
                continue
            if old is not None and old.epoch < change.epoch:
                changed.append(self.remove(key))
                old = None
            if change.value is None:
                if old is not None:
                    self.remove(key)
                    changed.append(change)
            elif old is not None or change.version == 0 or key in entry.placed:
                # One that has grown moves to a node of its own, which was not there to be read.
                self.documents[key] = Document(key, change.value, change.version, change.epoch)
                changed.append(change)
        for key in entry.registered:
            self._register(key)
        for key, node in entry.placed.items():
            self._place(key, node)
        return changed

    def load(self, nodes: dict[int, list[Document]], registered: Iterable[Document]) -> None:
        """Fill an empty mirror with what was read, node by node, while commits continued."""
        for number, documents in nodes.items():
            for document in documents:
                if self._load(document):
                    self._place(document.key, number)
        for document in registered:
            if self._load(document):
                self._register(document.key)

    def remove(self, key: str) -> Change:
        """Forget a document; the change that tells of it."""
        old = self.documents.pop(key)
        self.registered.discard(key)
        self._unplace(key)
        return Change(key, None, old.version, old.epoch)

    def difference(self, newer: "Mirror") -> list[Change]:
        """What turns this mirror into the other: removals first, then the rest in order of keys."""
        gone = [
            Change(old.key, None, old.version, old.epoch)
            for key, old in sorted(self.documents.items())
            if (new := newer.documents.get(key)) is None or new.epoch != old.epoch
        ]
        return gone + [
            Change(*new)
            for key, new in sorted(newer.documents.items())
            if (old := self.documents.get(key)) is None
            or (old.version, old.epoch) != (new.version, new.epoch)
        ]

    def scan(self, prefix: str) -> list[Document]:
        """The documents whose keys begin so, in the order of keys."""
        return sorted(one for key, one in self.documents.items() if key.startswith(prefix))

    def _load(self, document: Document) -> bool:
        # A key that was read in two places moved meanwhile: the commit that did it follows.
        other = self.documents.get(document.key)
        if other is not None and (other.epoch, other.version) >= (document.epoch, document.version):
            return False
        self.documents[document.key] = document
        return True

    def _register(self, key: str) -> None:
        if key in self.documents:
            self._unplace(key)
            self.registered.add(key)

    def _place(self, key: str, node: int) -> None:
        if key in self.documents:
            self._unplace(key)
            self.registered.discard(key)
            self.places[key] = node
            self.nodes.setdefault(node, set()).add(key)

    def _unplace(self, key: str) -> None:
        node = self.places.pop(key, None)
        if node is not None:
            self.nodes[node].discard(key)
            if not self.nodes[node]:
                del self.nodes[node]


class Draft:
    """Commits judged on top of a mirror, to be written together."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._states: dict[str, Document | None] = {}
        self._newly_registered: set[str] = set()
        self._relied_on: set[str] = set()
        self.changes: list[Change] = []

    def commit(self, ops: Sequence[Op]) -> list[int]:
        """Apply all and say the version that each one left, or raise Conflict and apply none."""
        undo = [(op.key, op.key in self._states, self._state(op.key)) for op in ops]
        registered, changes = set(self._newly_registered), len(self.changes)
        try:
            return [self._apply(op) for op in ops]
        except Conflict:
            for key, was_touched, state in undo:
                if was_touched:
                    self._states[key] = state
                else:
                    self._states.pop(key, None)
            self._newly_registered = registered
            del self.changes[changes:]
            raise

    def register(self, ops: Sequence[Op]) -> list[int]:
        """As `commit`; what is created is registered."""
        versions = self.commit(ops)
        self._newly_registered.update(op.key for op in ops)
        return versions

    def finish(self, writer: str, layout: Layout) -> tuple[Entry, list[Write]]:
        """What others read of it, and what brings the nodes to its state.

        Deletions of registered nodes come first, for some are made again.
        """
        writes: list[Write] = []
        for key in sorted(self._states.keys() & self._mirror.registered):
            path, new = layout.registration(key), self._states[key]
            if new is not None and new.epoch == self._mirror.documents[key].epoch:
                writes.append(Write(Do.SET, path, encode_documents([new])))
            else:
                writes.append(Write(Do.DELETE, path))
        writes += [
            Write(Do.CHECK, layout.registration(key))
            for key in sorted(self._relied_on - self._states.keys())
        ]
        for key in sorted(self._newly_registered):
            new = self._states[key]
            assert new is not None
            writes.append(Write(Do.REGISTER, layout.registration(key), encode_documents([new])))
        placed = self._place_documents()
        writes.extend(self._node_writes(placed, layout))
        return Entry(writer, self.changes, sorted(self._newly_registered), placed), writes

    def _place_documents(self) -> dict[str, int]:
        """The nodes of what is new in one: also of what was made again, and of what has grown."""
        placed: dict[str, int] = {}
        rooms = self._rooms()
        next_node = max(self._mirror.nodes, default=-1) + 1
        for key, document in self._states.items():
            if document is None or self._is_registered(document):
                continue
            place = self._mirror.places.get(key)
            alone = len(document.value) >= LARGE
            if place is not None and not (alone and len(self._mirror.nodes[place]) > 1):
                if document.epoch == NEW:
                    placed[key] = place
                continue
            node = next_node if alone else next(rooms, next_node)
            placed[key] = node
            if node == next_node:
                next_node += 1
                if not alone:
                    rooms = iter([node] * (DOCUMENTS_IN_A_NODE - 1))
        return placed

    def _rooms(self) -> Iterator[int]:
        """The numbers of nodes with room, once for each document that fits in."""
        documents = self._mirror.documents
        for node in sorted(self._mirror.nodes):
            keys = self._mirror.nodes[node]
            room = DOCUMENTS_IN_A_NODE - len(keys)
            if room > 0 and sum(len(documents[key].value) for key in keys) < LARGE:
                yield from [node] * room

    def _node_writes(self, placed: dict[str, int], layout: Layout) -> Iterator[Write]:
        nodes, places = self._mirror.nodes, self._mirror.places
        after: dict[int, set[str]] = {}
        for key in self._states:
            for node in {places.get(key), placed.get(key)} - {None}:
                assert node is not None
                if node not in after:
                    after[node] = set(nodes.get(node, ()))
                if placed.get(key, node) == node:
                    after[node].add(key)
                else:
                    after[node].discard(key)
        for node in sorted(after):
            documents = [
                document
                for key in sorted(after[node])
                if (document := self._state(key)) is not None and not self._is_registered(document)
            ]
            if documents:
                do = Do.SET if node in nodes else Do.CREATE
                yield Write(do, layout.node(node), encode_documents(documents))
            elif node in nodes:
                yield Write(Do.DELETE, layout.node(node))

    def _apply(self, op: Op) -> int:
        state = self._state(op.key)
        if state is not None and op.key in self._mirror.registered:
            self._relied_on.add(op.key)
        if isinstance(op, Create) or (isinstance(op, Check) and op.version is None):
            if state is not None:
                raise Conflict(op.key)
            return self._put(op.key, op.value, 0, NEW) if isinstance(op, Create) else -1
        if isinstance(op, Put):
            version, epoch = (state.version + 1, state.epoch) if state else (0, NEW)
            return self._put(op.key, op.value, version, epoch)
        if state is None or op.version not in (None, state.version):
            raise Conflict(op.key)
        if isinstance(op, Update):
            return self._put(op.key, op.value, state.version + 1, state.epoch)
        if isinstance(op, Delete):
            self._states[op.key] = None
            self._newly_registered.discard(op.key)
            self.changes.append(Change(op.key, None, state.version, state.epoch))
        return state.version

    def _put(self, key: str, value: bytes, version: int, epoch: int) -> int:
        self._states[key] = Document(key, value, version, epoch)
        self.changes.append(Change(key, value, version, epoch))
        return version

    def _state(self, key: str) -> Document | None:
        if key in self._states:
            return self._states[key]
        return self._mirror.documents.get(key)

    def _is_registered(self, document: Document) -> bool:
        if document.key in self._newly_registered:
            return True
        # Deleted and made again it has another epoch, and is an ordinary document.
        return (
            document.key in self._mirror.registered
            and self._mirror.documents[document.key].epoch == document.epoch
        )
