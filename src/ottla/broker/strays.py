"""Folders in the data folder that no partition of this broker claims.

A kill between a topic's deletion and the removal of its folders leaves some behind; so does a
replica that is moved away while its broker is down.

Rules kept here:
1. A folder is judged by the topic's id in it, not by its name. It is stray where the metadata have
   no such topic, or have this replica of it on other brokers only.
2. The metadata are whole and of this cluster: all of them are read when a broker opens, from the
   quorum where there is one; a document that cannot be read ends the start, and so does a data
   folder of another cluster, or one with partitions beside a store that has nothing.
3. A stray folder is renamed, as in Kafka (`-stray`), and told once. It is not deleted: a metadata
   store that was put back from an old copy does not know the topics made since, and their records
   would be gone.
4. A folder without an id may be anybody's. It is left alone.
5. What checkpoints say of it is forgotten first, or it would count for a topic made later.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import structlog

from ottla.broker.checkpoints import Key
from ottla.log.folder import FolderError, PartitionFolder, deleted_stem, stray_name

if TYPE_CHECKING:
    from ottla.broker.node import Node

log = structlog.get_logger()


async def sweep(node: Node, to_be_opened: Collection[Key]) -> None:
    """Finish deletions that a stop interrupted, and set aside what nobody claims."""
    known = {deleted_stem(*key): key for key in node.maintenance.checkpoints.known()}
    for stem, directory in node.folder.deleted():
        node.maintenance.remove_directory(directory, known.get(stem))
    stray: list[PartitionFolder] = []
    unknown: list[str] = []
    for each in node.folder.partitions():
        key = (each.topic, each.partition)
        if key in to_be_opened or node.partitions.get(*key) is not None:
            continue
        if _is_stray(node, each):
            stray.append(each)
        elif each.topic not in node.image.topics:
            unknown.append(each.path.name)
    if unknown:
        log.warning(
            "folders that belong to no topic are left alone",
            count=len(unknown),
            folders=", ".join(unknown[:10]),
        )
    if stray:
        await _set_aside(node, stray)


def _is_stray(node: Node, folder: PartitionFolder) -> bool:
    try:
        topic_id = node.folder.read_topic_id(folder.path)
    except (OSError, FolderError):
        return False
    if topic_id is None:
        return False
    topic = node.image.topics_by_id.get(topic_id)
    if topic is None:
        return True
    if topic.name != folder.topic:
        return False  # somebody has renamed it
    assignment = topic.assignment
    return folder.partition >= len(assignment) or node.id not in assignment[folder.partition]


async def _set_aside(node: Node, strays: list[PartitionFolder]) -> None:
    names = []
    try:
        await node.maintenance.checkpoints.forget((each.topic, each.partition) for each in strays)
        for each in strays:
            if not _is_stray(node, each):
                continue  # it was moved here meanwhile, or is deleted already
            name = stray_name(each.topic, each.partition)
            node.files.rename(str(each.path), str(each.path.with_name(name)))
            names.append(name)
    except OSError as problem:  # the next start tries again
        log.error("folders of no partition could not be set aside", reason=str(problem))
    if names:
        log.warning(
            "folders of deleted topics, or of partitions that other brokers have now, are set "
            "aside; remove them if nobody misses their records",
            count=len(names),
            folders=", ".join(names[:10]),
        )
