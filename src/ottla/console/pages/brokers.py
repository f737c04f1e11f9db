"""Brokers: where they listen, what they lead, their disks, their settings; and what moves."""

from typing import NamedTuple

from starlette.responses import Response

from ottla.client import Admin, Client, KafkaError
from ottla.client.admin import BrokerInfo, Resource, TopicDescription
from ottla.client.log_dirs import LogDirDescription, describe_log_dirs
from ottla.client.moving import Replicas
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.paging import page_of
from ottla.wire.config_resource_type import ConfigResourceType


class BrokerRow(NamedTuple):
    """A broker in the list."""

    info: BrokerInfo
    is_controller: bool
    leaders: int
    replicas: int
    in_sync: int
    size: int | None
    free: int | None


def _counts(topics: list[TopicDescription], node_id: int) -> tuple[int, int, int]:
    partitions = [each for topic in topics for each in topic.partitions]
    return (
        sum(each.leader == node_id for each in partitions),
        sum(node_id in each.replicas for each in partitions),
        sum(node_id in each.isr for each in partitions),
    )


def _dirs(client: Client, node_id: int) -> list[LogDirDescription]:
    try:
        return describe_log_dirs(client, node_id)
    except KafkaError:
        return []  # not allowed, or gone just now: the rest of the page is still worth it


def _sum(sizes: list[int]) -> int | None:
    known = [size for size in sizes if size >= 0]
    return sum(known) if known else None


def show(call: ConsoleCall) -> Response:
    """All brokers."""
    topics = call.cluster.topics()
    with call.cluster.client() as client:
        cluster = Admin(client).describe_cluster()
        dirs = {broker.id: _dirs(client, broker.id) for broker in cluster.brokers}
        try:
            moving = sorted(Replicas(client).moving().items())
            moving_note = ""
        except KafkaError as problem:
            moving, moving_note = [], str(problem)
    rows = [
        BrokerRow(
            broker,
            broker.id == cluster.controller,
            *_counts(topics, broker.id),
            _sum([size for each in dirs[broker.id] for size in each.replicas.values()]),
            _sum([each.usable_bytes for each in dirs[broker.id]]),
        )
        for broker in cluster.brokers
    ]
    isr = {(topic.name, each.partition): each.isr for topic in topics for each in topic.partitions}
    return call.render(
        "brokers.html",
        cluster=cluster,
        rows=rows,
        moving=page_of(moving, call.number("page", 1)),
        moving_note=moving_note,
        isr=isr,
    )


def show_one(call: ConsoleCall) -> Response:
    """One broker: its disks and settings."""
    node_id = int(call.path("id"))
    if node_id > 2**31 - 1:
        raise BadRequest("there is no such broker")
    search = call.text("q")
    changed = call.text("changed") == "1"
    with call.cluster.client() as client:
        settings = Admin(client).describe_settings(
            Resource(ConfigResourceType.BROKER, str(node_id))
        )
        dirs = _dirs(client, node_id)
    found = [
        each
        for each in settings
        if search.lower() in each.name.lower() and not (changed and each.source == "DEFAULT_CONFIG")
    ]
    return call.render(
        "broker.html",
        node_id=node_id,
        page=page_of(found, call.number("page", 1)),
        dirs=dirs,
        search=search,
        changed=changed,
    )
