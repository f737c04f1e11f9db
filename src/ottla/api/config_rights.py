"""Whose right it is to see or change the settings of a resource."""

from typing import Protocol

from ottla.broker.metadata.config_resources import ResourceType
from ottla.security.authorizer import Access
from ottla.security.operations import CLUSTER_NAME, Operation
from ottla.security.operations import ResourceType as Resource

_OWN_NAME = {ResourceType.TOPIC: Resource.TOPIC, ResourceType.GROUP: Resource.GROUP}
_OF_THE_CLUSTER = (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS)


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
        access.check(operation, Resource.CLUSTER, CLUSTER_NAME)
