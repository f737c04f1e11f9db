"""How documents are kept in ZooKeeper: the tree, the names and the contents of its nodes. Pure.

    <chroot>/ottla/v1/
        head            its version counts the commits; every store watches this one node
        changes/        one node for each of the last commits, named by its number: what it changed
        documents/      what is stored, up to 64 documents in a node; the nodes are numbered
        registered/     the registered documents, each an ephemeral node
        sessions/       an ephemeral node for each open store

1. A node has the documents with their versions and epochs in it. The epoch of what a commit creates
   is the commit's own zxid, which is not known while it is written: it is written as NEW, and means
   the zxid that wrote the node. The next write of the node puts the number there.
2. Documents share nodes, and contents are compressed, because ZooKeeper takes at most 1 MB at once:
   an operation for each of 10,000 partitions would be more, and is a fifth of it so. And because a
   start reads all of them, at a third of a millisecond for each node.
"""

import zlib
from typing import NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from ottla.metadata.store import Change, Document, StoreError

FOLDER = "ottla"
FORMAT = 1
NEW = 0
_COMPRESSED_FROM = 512
_PLAIN, _ZLIB = b"\x00", b"\x01"

T = TypeVar("T")


class Entry(NamedTuple):
    """A commit as others read it.

    `writer` is what no other commit has, `registered` are the keys that it created as registered
    ones, `placed` is the number of the node for each key that it put into one where it was not
    before.
    """

    writer: str
    changes: list[Change]
    registered: list[str]
    placed: dict[str, int]


class Layout:
    """The paths of one store."""

    def __init__(self, chroot: str) -> None:
        self.folder = f"{chroot}/{FOLDER}"
        self.root = f"{self.folder}/v{FORMAT}"
        self.head = f"{self.root}/head"
        self.changes = f"{self.root}/changes"
        self.documents = f"{self.root}/documents"
        self.registered = f"{self.root}/registered"
        self.sessions = f"{self.root}/sessions"

    def change(self, number: int) -> str:
        """The node of a commit."""
        return f"{self.changes}/{number:010d}"

    def node(self, number: int) -> str:
        """A node with documents."""
        return f"{self.documents}/{number:010d}"

    def registration(self, key: str) -> str:
        """The ephemeral node of a registered document."""
        return f"{self.registered}/{quote(key, safe='')}"


def encode_documents(documents: list[Document]) -> bytes:
    """The content of a node."""
    return _encode(documents)


def decode_documents(path: str, content: bytes, zxid: int) -> list[Document]:
    """What a node holds; `zxid` is of the commit that wrote it."""
    documents = _decode(path, content, list[Document])
    return [one._replace(epoch=one.epoch or zxid) for one in documents]


def encode_entry(entry: Entry) -> bytes:
    """The content of a commit's node."""
    return _encode(entry)


def decode_entry(path: str, content: bytes, zxid: int) -> Entry:
    """The commit in a node; `zxid` is its number."""
    entry = _decode(path, content, Entry)
    return entry._replace(changes=with_epochs(entry.changes, zxid))


def with_epochs(changes: list[Change], zxid: int) -> list[Change]:
    """The changes with the number of their commit where it was not known yet."""
    return [one if one.epoch else one._replace(epoch=zxid) for one in changes]


def _encode(value: object) -> bytes:
    raw = msgspec.msgpack.encode(value)
    if len(raw) >= _COMPRESSED_FROM:
        return _ZLIB + zlib.compress(raw, 1)
    return _PLAIN + raw


def _decode(path: str, content: bytes, kind: type[T]) -> T:
    try:
        how, raw = content[:1], content[1:]
        if how not in (_PLAIN, _ZLIB):
            raise ValueError("it was not written by a store of this format")
        return msgspec.msgpack.decode(zlib.decompress(raw) if how == _ZLIB else raw, type=kind)
    except (ValueError, zlib.error, msgspec.DecodeError) as error:
        raise StoreError(f"ZooKeeper's node {path} is corrupt: {error}") from error
