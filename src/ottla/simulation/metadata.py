"""What the metadata store says now, read from the simulated ZooKeeper's tree itself."""

from __future__ import annotations

from typing import Final

from ottla.metadata.image import Image
from ottla.metadata.store import Document
from ottla.metadata.stores.zookeeper_nodes import Layout, decode_documents
from ottla.simulation.zookeeper_server import ZooKeeperServer

LAYOUT: Final = Layout("/ottla")


def image_of(zookeeper: ZooKeeperServer) -> Image:
    """The cluster's metadata as of now."""
    documents: list[Document] = []
    for folder in (LAYOUT.documents, LAYOUT.registered):
        if folder not in zookeeper.nodes:
            continue
        for name in zookeeper.nodes[folder].children:
            path = f"{folder}/{name}"
            node = zookeeper.nodes[path]
            documents += decode_documents(path, node.content, node.mzxid)
    return Image.of(documents)
