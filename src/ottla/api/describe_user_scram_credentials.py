"""DescribeUserScramCredentials, version 0: nobody has any, since there is no SASL."""

from collections import Counter

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@api(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    0,
    0,
    DescribeUserScramCredentialsRequest,
    pieces("users", "results"),
    authorize=OnCluster(Operation.DESCRIBE),
)
def describe_user_scram_credentials(
    _: Request, asked: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Of all users none is listed; each that is named is not there."""
    named = Counter(user.name for user in asked.users or [])
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_absent(name, times) for name, times in named.items()]
    )


def _absent(name: str, times: int) -> DescribeUserScramCredentialsResult:
    code = ErrorCode.RESOURCE_NOT_FOUND
    why = "Attempt to describe a user credential that does not exist"
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        why = "Cannot describe SCRAM credentials for the same user twice in a single request"
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=f"{why}: {name}"
    )
