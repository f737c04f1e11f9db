"""DescribeUserScramCredentials, version 0: who has SCRAM credentials (KIP-554)."""

from collections import Counter

from ottla.api.authorization import OnCluster
from ottla.api.pieces import pieces
from ottla.api.registry import Request, api
from ottla.broker.metadata.security import MECHANISMS, credentials_of, user_names
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
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
    request: Request, asked: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """The mechanisms and iterations of each user named, or of all."""
    named = Counter(user.name for user in asked.users or [])
    wanted = named or Counter(user_names(request.node.image))
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_describe(request, name, times) for name, times in wanted.items()],
    )


def _describe(request: Request, name: str, times: int) -> DescribeUserScramCredentialsResult:
    known = credentials_of(request.node.image, name)
    if known and times == 1:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_message=None,
            credential_infos=[
                CredentialInfo(mechanism=number, iterations=known[mechanism].iterations)
                for number, mechanism in MECHANISMS.items()
                if mechanism in known
            ],
        )
    code = ErrorCode.RESOURCE_NOT_FOUND
    why = "Attempt to describe a user credential that does not exist"
    if times > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        why = "Cannot describe SCRAM credentials for the same user twice in a single request"
    return DescribeUserScramCredentialsResult(
        user=name, error_code=code, error_message=f"{why}: {name}"
    )
