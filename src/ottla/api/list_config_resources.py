"""ListConfigResources, versions 0 and 1: what has settings (KIP-1142; version 0 was KIP-714's)."""

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.config_resource_type import ConfigResourceType
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
    kinds = set(asked.resource_types) or set(ConfigResourceType)
    if request.version == 0:
        kinds = {ConfigResourceType.CLIENT_METRICS}
    if not kinds <= set(ConfigResourceType):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = request.node.image
    answer = ListConfigResourcesResponse()
    found: list[tuple[ConfigResourceType, list[str]]] = [
        (ConfigResourceType.TOPIC, list(image.topics)),
        (ConfigResourceType.BROKER, [str(broker) for broker in image.brokers]),
        (ConfigResourceType.BROKER_LOGGER, [str(broker) for broker in image.brokers]),
        (ConfigResourceType.CLIENT_METRICS, list(image.client_metrics_configs)),
        (ConfigResourceType.GROUP, list(image.group_configs)),
    ]
    for kind, names in found:
        if kind in kinds:
            answer.config_resources += [
                ConfigResource(resource_name=name, resource_type=kind) for name in names
            ]
    return answer
