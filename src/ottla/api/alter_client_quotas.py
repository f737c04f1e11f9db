"""AlterClientQuotas, versions 0 and 1: set and remove quotas of users, client ids and addresses.

KIP-546. One entity's failure is not the others'.
"""

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.security import alter_quotas
from ottla.security.operations import Operation
from ottla.security.quotas import IP, Entity, entity_of
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
)


def _refuse(asked: AlterClientQuotasRequest, code: ErrorCode) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=code,
                error_message="Cluster authorization failed.",
                entity=entry.entity,
            )
            for entry in asked.entries
        ]
    )


@api(
    ApiKey.ALTER_CLIENT_QUOTAS,
    0,
    1,
    AlterClientQuotasRequest,
    pieces("entries", "entries"),
    authorize=OnCluster(Operation.ALTER_CONFIGS, _refuse),
)
async def alter_client_quotas(
    request: Request, asked: AlterClientQuotasRequest
) -> AlterClientQuotasResponse:
    """Change the quotas of each entity, or only check them."""
    answer = AlterClientQuotasResponse()
    for entry in asked.entries:
        result = AlterClientQuotasResponseEntryData(error_message=None, entity=entry.entity)
        answer.entries.append(result)
        try:
            await _alter(request, entry, asked.validate_only)
        except Exception as problem:  # noqa: BLE001 one entity's failure is not the others'
            result.error_code, result.error_message = error_of(problem)
    return answer


async def _alter(
    request: Request, entry: AlterClientQuotasRequestEntryData, validate_only: bool
) -> None:
    entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
    _check_address(entity)
    values: dict[str, float | None] = {}
    for op in entry.ops:
        values[op.key] = None if op.remove else op.value
    await alter_quotas(request.node.metadata, entity, values, validate_only=validate_only)


def _check_address(entity: Entity) -> None:
    """As Kafka, but without looking a name up: an address is one."""
    if not entity.ip:
        return
    from ipaddress import ip_address  # few brokers ever need it

    try:
        ip_address(entity.ip)
    except ValueError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{entity.ip} is not a valid {IP.upper()} or resolvable host.",
        ) from None
