"""Whose right it is to see or change the settings of a resource."""

from typing import Protocol

from ottla.security.authorizer import Access
from ottla.security.operations import CLUSTER_NAME, Operation, ResourceType
from ottla.wire.config_resource_type import ConfigResourceType

_OWN_NAME = {
    ConfigResourceType.TOPIC: ResourceType.TOPIC,
    ConfigResourceType.GROUP: ResourceType.GROUP,
}
_OF_THE_CLUSTER = (
    ConfigResourceType.BROKER,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.CLIENT_METRICS,
)


class ConfigResource(Protocol):
    """What has settings."""

    resource_type: int
    resource_name: str


def check_config_right(access: Access, operation: Operation, resource: ConfigResource) -> None:
    """Refuse a client that may not; raises KafkaError. A type without settings is not asked for."""
    kind = resource.resource_type
    for own, right in _OWN_NAME.items():
        if kind == own:
            access.check(operation, right, resource.resource_name)
    if kind in _OF_THE_CLUSTER:
        access.check(operation, ResourceType.CLUSTER, CLUSTER_NAME)
