"""DescribeClientQuotas, versions 0 and 1: nobody has a quota; tools that show them ask."""

from ottla.api.registry import Request, api
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)


@api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, DescribeClientQuotasRequest)
def describe_client_quotas(
    _: Request, __: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """There are none to describe."""
    return DescribeClientQuotasResponse(error_message=None, entries=[])
