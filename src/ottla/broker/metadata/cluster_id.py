"""Checks that the data folder and the metadata store belong to the same cluster.

Rules kept here:
1. A store without a cluster id gets one: that of the folder, or a new one.
2. A folder that holds partitions is not used with a store that has no metadata: its topics would be
   forgotten. The broker does not start.
"""

from __future__ import annotations

import uuid

from ottla.broker.context.metadata_writer import MetadataWriter
from ottla.broker.metadata.stores import METADATA_FILE, own_file
from ottla.config import BrokerConfig
from ottla.log.storage.folder import DataFolder, FolderError, uuid_to_text
from ottla.metadata import documents
from ottla.metadata.image import Image
from ottla.metadata.store import Create


async def ensure_cluster_id(
    image: Image, metadata: MetadataWriter, folder: DataFolder, config: BrokerConfig
) -> None:
    """Have a cluster id in the store; raises FolderError (rule 2) or StoreError."""
    if image.cluster_id is not None:
        return
    check_not_lost(folder, config)
    meta = folder.read_meta()
    cluster_id = uuid_to_text(uuid.uuid4()) if meta is None else meta.cluster_id
    value = documents.encode(documents.ClusterIdentity(cluster_id))
    await metadata.change(
        lambda image: (None, [] if image.cluster_id else [Create(documents.CLUSTER, value)])
    )


def check_not_lost(folder: DataFolder, config: BrokerConfig) -> None:
    """There is no metadata: refuse a folder that had some; raises FolderError."""
    if folder.read_meta() is not None and folder.partitions():
        where = f"its {METADATA_FILE}" if own_file(config) else config.ottla_store
        raise FolderError(
            f"{folder.path} holds partitions, but {where} is missing or "
            "empty; restore it, or choose another folder"
        )
