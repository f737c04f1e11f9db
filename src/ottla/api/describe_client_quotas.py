"""DescribeClientQuotas, versions 0 and 1: the quotas of entities that a filter matches (KIP-546).

What cannot be asked for is refused in Kafka's words and order.
"""

from collections.abc import Iterable
from enum import IntEnum

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api, error_of
from ottla.security.operations import Operation
from ottla.security.quotas import CLIENT_ID, IP, USER
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class Match(IntEnum):
    """Which names of a type are asked for, with Kafka's numbers."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@api(
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    0,
    1,
    DescribeClientQuotasRequest,
    authorize=OnCluster(Operation.DESCRIBE_CONFIGS),
)
def describe_client_quotas(
    request: Request, asked: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """The quotas of each entity that has the types and names asked for."""
    try:
        _check(asked.components)
    except KafkaError as problem:
        code, message = error_of(problem)
        return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
    wanted = {
        each.entity_type: None if each.match_type == Match.SPECIFIED else (each.match or "")
        for each in asked.components
    }
    entries: list[EntryData] = []
    for quota in request.node.image.quotas.values():
        named = {USER: quota.user, CLIENT_ID: quota.client_id, IP: quota.ip}
        entity = {kind: name for kind, name in named.items() if name is not None}
        if asked.strict and entity.keys() != wanted.keys():
            continue
        if all(kind in entity and name in (None, entity[kind]) for kind, name in wanted.items()):
            entries.append(_entry(entity, quota.values))
    return DescribeClientQuotasResponse(error_message=None, entries=entries)


def _entry(entity: dict[str, str], values: dict[str, float]) -> EntryData:
    return EntryData(
        entity=[
            EntityData(entity_type=kind, entity_name=name or None) for kind, name in entity.items()
        ],
        values=[ValueData(key=key, value=value) for key, value in values.items()],
    )


def _check(components: Iterable[ComponentData]) -> None:
    seen: set[str] = set()
    for component in components:
        kind = component.entity_type
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in seen:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        _check_match(component)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


def _check_match(component: ComponentData) -> None:
    try:
        match = Match(component.match_type)
    except ValueError:
        raise _invalid(f"Unknown match type {component.match_type}") from None
    if match is Match.EXACT and component.match is None:
        raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    if match is not Match.EXACT and component.match is not None:
        raise _invalid(
            f"Request specified MATCH_TYPE_{match.name}, but also specified a match string."
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
