"""What a commit makes of the nodes in ZooKeeper, and how a mirror is made from them again."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.metadata.store import Check, Conflict, Create, Delete, Document, Op, Put, Update
from ottla.metadata.stores.zookeeper_mirror import (
    DOCUMENTS_IN_A_NODE,
    LARGE,
    Do,
    Draft,
    Mirror,
    Write,
)
from ottla.metadata.stores.zookeeper_nodes import (
    Entry,
    Layout,
    decode_documents,
    decode_entry,
    encode_entry,
)

from .model import Model

LAYOUT = Layout("/x")


class Tree:
    """ZooKeeper's part: nodes by path, each with the zxid that wrote it, and all entries."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int]] = {}
        self.entries: list[Entry] = []
        self.zxid = 100

    def commit(self, mirror: Mirror, draft: Draft) -> None:
        """Write a draft as a multi would be written; whatever does not fit the nodes fails."""
        self.zxid += 1
        entry, writes = draft.finish("writer", LAYOUT)
        for write in writes:
            self._write(write)
        entry = decode_entry("entry", encode_entry(entry), self.zxid)
        self.entries.append(entry)
        mirror.apply(len(self.entries), entry)

    def _write(self, write: Write) -> None:
        exists = write.path in self.nodes
        assert exists == (write.do not in (Do.CREATE, Do.REGISTER))
        if write.do is Do.DELETE:
            del self.nodes[write.path]
        elif write.do is not Do.CHECK:
            self.nodes[write.path] = (write.content, self.zxid)

    def documents(self, paths: list[str]) -> dict[str, list[Document]]:
        """What is in these nodes now."""
        return {path: decode_documents(path, *self.nodes[path]) for path in paths}

    def paths(self, folder: str) -> list[str]:
        """The nodes in a folder."""
        return sorted(path for path in self.nodes if path.startswith(f"{folder}/"))


def _loaded(tree: Tree) -> Mirror:
    mirror = Mirror(len(tree.entries), tree.entries[-1].writer if tree.entries else "")
    _load(mirror, tree.documents(tree.paths(LAYOUT.root)))
    return mirror


def _load(mirror: Mirror, found: dict[str, list[Document]]) -> None:
    plain = {path: some for path, some in found.items() if path.startswith(LAYOUT.documents)}
    mirror.load(
        {int(path.rpartition("/")[2]): some for path, some in plain.items()},
        [one for path, some in found.items() if path not in plain for one in some],
    )


_KEYS = st.sampled_from(["a", "b", "c/1", "c/2", "d"])
_VALUES = st.binary(max_size=2) | st.just(b"x" * LARGE)
_VERSIONS = st.integers(0, 2)
_OPS: st.SearchStrategy[Op] = st.one_of(
    st.builds(Put, _KEYS, _VALUES),
    st.builds(Create, _KEYS, _VALUES),
    st.builds(Update, _KEYS, _VALUES, _VERSIONS),
    st.builds(Delete, _KEYS, st.none() | _VERSIONS),
    st.builds(Check, _KEYS, st.none() | _VERSIONS),
)
_COMMITS = st.lists(_OPS, min_size=1, max_size=4)
# Each batch is some commits that are written together, and keys that are registered with them.
_BATCHES = st.lists(st.tuples(st.lists(_COMMITS, max_size=3), st.lists(_KEYS, max_size=1)))


def _run(tree: Tree, mirror: Mirror, batch: tuple[list[list[Op]], list[str]]) -> list[Op]:
    """Write a batch; the operations of the commits that fitted."""
    commits, registered = batch
    draft = Draft(mirror)
    done: list[Op] = []
    for ops in commits:
        try:
            draft.commit(ops)
            done += ops
        except Conflict:
            pass
    for key in registered:
        try:
            draft.register([Create(key, b"registered")])
            done.append(Create(key, b"registered"))
        except Conflict:
            pass
    if draft.changes:
        tree.commit(mirror, draft)
    return done


@settings(max_examples=100)
@given(batches=_BATCHES)
def test_the_nodes_are_what_the_mirror_says(
    batches: list[tuple[list[list[Op]], list[str]]],
) -> None:
    tree, mirror, model = Tree(), Mirror(), Model()
    for batch in batches:
        model.commit(_run(tree, mirror, batch))
        assert vars(_loaded(tree)) == vars(mirror)
    assert [one[:3] for one in mirror.scan("")] == [one[:3] for one in model.snapshot()]


@settings(max_examples=100)
@given(batches=_BATCHES, data=st.data())
def test_nodes_read_one_by_one_during_commits_become_one_state(
    batches: list[tuple[list[list[Op]], list[str]]], data: st.DataObject
) -> None:
    tree, mirror = Tree(), Mirror()
    first = data.draw(st.integers(0, len(batches)))
    for batch in batches[:first]:
        _run(tree, mirror, batch)
    newer = Mirror(len(tree.entries), mirror.token)
    # Both folders are listed at some time, and their nodes read later, one after the other.
    found: dict[str, list[Document]] = {}
    rest = list(batches[first:])
    for folder in (LAYOUT.documents, LAYOUT.registered):
        for path in tree.paths(folder):
            for _ in range(data.draw(st.integers(0, 1))):
                if rest:
                    _run(tree, mirror, rest.pop(0))
            if path in tree.nodes:
                found |= tree.documents([path])
    _load(newer, found)
    for number in range(newer.number, len(tree.entries)):
        newer.apply(number + 1, tree.entries[number])
    assert vars(newer) == vars(mirror)


def test_a_registration_that_ended_unseen_is_announced_before_the_key_is_taken_again() -> None:
    tree, mirror = Tree(), Mirror()
    _run(tree, mirror, ([], ["brokers/1"]))
    old = mirror.documents["brokers/1"]
    # The session ends: the node is gone, and there is no entry of it.
    tree.nodes.clear()
    writer = Mirror(mirror.number)
    draft = Draft(writer)
    draft.register([Create("brokers/1", b"again")])
    tree.commit(writer, draft)
    told = mirror.apply(2, tree.entries[-1])
    assert [(one.value, one.epoch) for one in told] == [(None, old.epoch), (b"again", tree.zxid)]
    assert mirror.registered == {"brokers/1"}


def test_what_relies_on_a_registered_document_says_so() -> None:
    tree, mirror = Tree(), Mirror()
    _run(tree, mirror, ([], ["controller"]))
    draft = Draft(mirror)
    draft.commit([Check("controller", 0), Put("a", b"")])
    _, writes = draft.finish("writer", LAYOUT)
    assert Write(Do.CHECK, LAYOUT.registration("controller")) in writes


def test_a_conflict_with_a_registered_document_says_so_too() -> None:
    tree, mirror = Tree(), Mirror()
    _run(tree, mirror, ([], ["controller"]))
    draft = Draft(mirror)
    draft.commit([Put("a", b"")])
    try:
        draft.commit([Create("controller", b"")])
    except Conflict:
        _, writes = draft.finish("writer", LAYOUT)
        assert Write(Do.CHECK, LAYOUT.registration("controller")) in writes


def test_nodes_are_filled_and_freed_room_is_used_again() -> None:
    tree, mirror = Tree(), Mirror()
    keys = [f"key/{number:03}" for number in range(3 * DOCUMENTS_IN_A_NODE)]
    _run(tree, mirror, ([[Create(key, b"") for key in keys]], []))
    assert [len(mirror.nodes[node]) for node in sorted(mirror.nodes)] == [DOCUMENTS_IN_A_NODE] * 3
    _run(tree, mirror, ([[Delete(key) for key in keys[:10]]], []))
    _run(tree, mirror, ([[Create(f"other/{number}", b"") for number in range(11)]], []))
    sizes = [len(mirror.nodes[node]) for node in sorted(mirror.nodes)]
    assert sizes == [DOCUMENTS_IN_A_NODE] * 3 + [1]
