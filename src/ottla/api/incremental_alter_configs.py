"""IncrementalAlterConfigs, versions 0 and 1: change single settings (KIP-339)."""

from collections import Counter

from ottla.api.authorization import Inside
from ottla.api.config_rights import check_config_right
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.config_resources import (
    broker_of,
    check_logger_of,
    unsupported,
)
from ottla.broker.metadata.topics import (
    alter_broker_configs,
    alter_client_metrics_configs,
    alter_group_configs,
    alter_topic_configs,
)
from ottla.broker.metrics.log_level import alter_loggers
from ottla.config.dynamic import Alteration, AlterOp
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.config_resource_type import ConfigResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@api(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    0,
    1,
    IncrementalAlterConfigsRequest,
    pieces("resources", "responses"),
    authorize=Inside(
        (Operation.ALTER_CONFIGS, ResourceType.TOPIC),
        (Operation.ALTER_CONFIGS, ResourceType.GROUP),
        (Operation.ALTER_CONFIGS, ResourceType.CLUSTER),
    ),
)
async def incremental_alter_configs(
    request: Request, asked: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change settings of each resource; they hold when the answer comes."""
    named = Counter((each.resource_type, each.resource_name) for each in asked.resources)
    answer = IncrementalAlterConfigsResponse()
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
            await _alter(request, resource, asked.validate_only)
        except Exception as problem:  # noqa: BLE001 one resource's failure is not the others'
            result.error_code, result.error_message = error_of(problem)
    return answer


async def _alter(request: Request, resource: AlterConfigsResource, validate_only: bool) -> None:
    node = request.node
    alterations = [_alteration(each) for each in resource.configs]
    if resource.resource_type == ConfigResourceType.TOPIC:
        await alter_topic_configs(
            node.metadata, resource.resource_name, alterations, validate_only=validate_only
        )
    elif resource.resource_type == ConfigResourceType.BROKER:
        broker = broker_of(node.id, resource.resource_name)
        await alter_broker_configs(node.metadata, broker, alterations, validate_only=validate_only)
    elif resource.resource_type == ConfigResourceType.GROUP:
        await alter_group_configs(
            node.metadata, resource.resource_name, alterations, validate_only=validate_only
        )
    elif resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        await alter_client_metrics_configs(
            node.metadata, resource.resource_name, alterations, validate_only=validate_only
        )
    elif resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        check_logger_of(node.id, resource.resource_name)
        alter_loggers(alterations, validate_only=validate_only)
    else:
        raise unsupported(resource.resource_type)


def _alteration(wanted: AlterableConfig) -> Alteration:
    try:
        op = AlterOp(wanted.config_operation)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Unknown operation {wanted.config_operation}"
        ) from None
    return Alteration(wanted.name, op, wanted.value)
