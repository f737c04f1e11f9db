"""DescribeUserScramCredentials, version 0: nobody has any, since there is no SASL."""

from collections import Counter

from ottla.api.registry import Request, api
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    _: Request, asked: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Of all users none is listed; each that is named is not there."""
    named = Counter(user.name for user in asked.users or [])
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_absent(name, times) for name, times in named.items()]
    )


def _absent(name: str, times: int) -> DescribeUserScramCredentialsResult:
    if times > 1:
        code, why = ErrorCode.DUPLICATE_RESOURCE, f"the user {name} is named {times} times"
    else:
        code, why = ErrorCode.RESOURCE_NOT_FOUND, f"the user {name} has no credentials"
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=why)
