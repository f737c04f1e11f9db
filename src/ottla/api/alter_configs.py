"""AlterConfigs, versions 0 to 2: replace all settings of a resource, as older clients do."""

from collections import Counter

from ottla.api.authorization import Inside
from ottla.api.config_rights import check_config_right
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.config_resources import broker_of, unsupported
from ottla.broker.metadata.topics import (
    replace_broker_configs,
    replace_client_metrics_configs,
    replace_group_configs,
    replace_topic_configs,
)
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.config_resource_type import ConfigResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


@api(
    ApiKey.ALTER_CONFIGS,
    0,
    2,
    AlterConfigsRequest,
    pieces("resources", "responses"),
    authorize=Inside(
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        (Operation.ALTER_CONFIGS, ResourceType.GROUP),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
    ),
)
async def alter_configs(request: Request, asked: AlterConfigsRequest) -> AlterConfigsResponse:
    """Give each resource exactly the settings named."""
    named = Counter((each.resource_type, each.resource_name) for each in asked.resources)
    answer = AlterConfigsResponse()
    for resource in asked.resources:
        result = AlterConfigsResourceResponse(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        answer.responses.append(result)
        try:
            if named[resource.resource_type, resource.resource_name] > 1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            check_config_right(request.access, Operation.ALTER_CONFIGS, resource)
            await _replace(request, resource, asked.validate_only)
        except Exception as problem:  # noqa: BLE001 one resource's failure is not the others'
            result.error_code, result.error_message = error_of(problem)
    return answer


async def _replace(request: Request, resource: AlterConfigsResource, validate_only: bool) -> None:
    node = request.node
    configs: dict[str, str] = {}
    for each in resource.configs:
        if each.name in configs:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        if each.value is None:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, f"Null value not supported for : {each.name}"
            )
        configs[each.name] = each.value
    if resource.resource_type == ConfigResourceType.TOPIC:
        await replace_topic_configs(
            node.metadata, resource.resource_name, configs, validate_only=validate_only
        )
    elif resource.resource_type == ConfigResourceType.BROKER:
        broker = broker_of(node.id, resource.resource_name)
        await replace_broker_configs(node.metadata, broker, configs, validate_only=validate_only)
    elif resource.resource_type == ConfigResourceType.GROUP:
        await replace_group_configs(
            node.metadata, resource.resource_name, configs, validate_only=validate_only
        )
    elif resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        await replace_client_metrics_configs(
            node.metadata, resource.resource_name, configs, validate_only=validate_only
        )
    else:
        raise unsupported(resource.resource_type)
