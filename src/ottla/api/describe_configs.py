"""DescribeConfigs, versions 1 to 4. KIPs: 226 (synonyms), 569 (types and documentation).

A request may name thousands of resources: others have their turns between them.
"""

from ottla.api.authorization import Inside
from ottla.api.config_rights import check_config_right
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.config_resources import (
    broker_of,
    check_logger_of,
    unsupported,
)
from ottla.broker.metrics.log_level import describe_loggers
from ottla.broker.scheduling.turns import Turns
from ottla.config import Described, describe_broker, describe_topic
from ottla.config.describe import (
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
)
from ottla.config.topic_names import check_topic_name
from ottla.security.operations import Operation, ResourceType
from ottla.wire.apis import ApiKey
from ottla.wire.config_resource_type import ConfigResourceType
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


@api(
    ApiKey.DESCRIBE_CONFIGS,
    1,
    4,
    DescribeConfigsRequest,
    pieces("resources", "results"),
    authorize=Inside(
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.GROUP),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ),
)
async def describe_configs(
    request: Request, asked: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Tell the effective settings of each resource, and where each one comes from."""
    answer = DescribeConfigsResponse()
    turns = Turns()
    for resource in asked.resources:
        result = DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        answer.results.append(result)
        try:
            check_config_right(request.access, Operation.DESCRIBE_CONFIGS, resource)
            result.configs = [_shown(each, asked) for each in _describe(request, resource)]
        except Exception as problem:  # noqa: BLE001 one resource's failure is not the others'
            result.error_code, result.error_message = error_of(problem)
        await turns.give_way()
    return answer


def _describe(request: Request, resource: DescribeConfigsResource) -> list[Described]:
    node = request.node
    names = resource.configuration_keys or None
    if resource.resource_type == ConfigResourceType.TOPIC:
        check_topic_name(resource.resource_name)
        topic = node.image.topics.get(resource.resource_name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return describe_topic(topic.configs, node.config.settings, names)
    if resource.resource_type == ConfigResourceType.BROKER:
        if broker_of(node.id, resource.resource_name) is None:
            return describe_cluster_default(node.config.settings.dynamic_default, names)
        return describe_broker(node.config.settings, names)
    if resource.resource_type == ConfigResourceType.GROUP:
        if not resource.resource_name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        own = node.image.group_configs.get(resource.resource_name)
        return describe_group(own.configs if own else {}, node.config.settings, names)
    if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
        if not resource.resource_name:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        own = node.image.client_metrics_configs.get(resource.resource_name)
        return describe_client_metrics(own.configs if own else {}, names)
    if resource.resource_type == ConfigResourceType.BROKER_LOGGER:
        check_logger_of(node.id, resource.resource_name)
        return describe_loggers(names)
    raise unsupported(resource.resource_type)


def _shown(each: Described, asked: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.read_only,
        config_source=each.source,
        is_sensitive=each.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=other.name, value=other.value, source=other.source)
            for other in each.synonyms
        ]
        if asked.include_synonyms
        else [],
        config_type=each.type,
        documentation=each.doc if asked.include_documentation else None,
    )
