"""ListConfigResources, versions 0 and 1: what has settings (KIP-1142; version 0 was KIP-714's)."""

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api
from ottla.broker.metadata.config_resources import ResourceType
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


@api(
    ApiKey.LIST_CONFIG_RESOURCES,
    0,
    1,
    ListConfigResourcesRequest,
    authorize=OnCluster(Operation.DESCRIBE_CONFIGS),
)
def list_config_resources(
    request: Request, asked: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """List the resources of the kinds asked, or of all kinds."""
    kinds = set(asked.resource_types) or set(ResourceType)
    if request.version == 0:
        kinds = {ResourceType.CLIENT_METRICS}
    if not kinds <= set(ResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = request.node.image
    answer = ListConfigResourcesResponse()
    found: list[tuple[ResourceType, list[str]]] = [
        (ResourceType.TOPIC, list(image.topics)),
        (ResourceType.BROKER, [str(broker) for broker in image.brokers]),
        (ResourceType.BROKER_LOGGER, [str(broker) for broker in image.brokers]),
        (ResourceType.CLIENT_METRICS, list(image.client_metrics_configs)),
        (ResourceType.GROUP, list(image.group_configs)),
    ]
    for kind, names in found:
        if kind in kinds:
            answer.config_resources += [
                ConfigResource(resource_name=name, resource_type=kind) for name in names
            ]
    return answer
