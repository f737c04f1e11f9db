"""The quota of changes of topics, `controller_mutation_rate` (KIP-599).

Each partition that is created or deleted counts. Requests of newer versions are refused while their
client is over its quota; those of older ones, whose clients do not know the error, are carried out,
and their client is throttled. Topics that Metadata creates are charged too; they are not created
while the client is over its quota, and it asks again.
"""

from ottla.api.registry import Request
from ottla.security.quotas import MUTATION
from ottla.wire.errors import ErrorCode, KafkaError

WHY = "The throttling quota has been exceeded."


def charge_mutations(request: Request, partitions: int, *, strict_from: int) -> None:
    """Charge the client, or refuse it; raises KafkaError."""
    quotas = request.node.quotas
    if quotas.is_empty:
        return
    if request.version >= strict_from and quotas.wait(MUTATION, request) > 0:
        raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, WHY)
    quotas.take(MUTATION, request, partitions)


def may_create_automatically(request: Request, topics: int) -> bool:
    """Charge the client for topics that it only named; False where it is over its quota."""
    quotas = request.node.quotas
    if quotas.is_empty:
        return True
    try:
        partitions = topics * request.node.config.num_partitions
        charge_mutations(request, partitions, strict_from=0)
    except KafkaError:
        return False
    return True


def mutation_wait_ms(request: Request) -> int:
    """What the reply says of how long to wait."""
    quotas = request.node.quotas
    return 0 if quotas.is_empty else round(quotas.wait(MUTATION, request) * 1000)
