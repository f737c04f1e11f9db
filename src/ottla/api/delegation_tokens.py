"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken.

As in Kafka, who is not authenticated can have none (KIP-48), and nobody is on a PLAINTEXT listener.
"""

from typing import Final

from ottla.api.authorization import Public
from ottla.api.registry import Request, api
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.wire.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

REFUSED: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
USER: Final = "User"
ANONYMOUS: Final = "ANONYMOUS"
NEVER: Final = -1
OWN: Final = Public("a token belongs to its owner, who is asked for in the handler")


@api(ApiKey.CREATE_DELEGATION_TOKEN, 1, 3, CreateDelegationTokenRequest, authorize=OWN)
def create_delegation_token(
    _: Request, asked: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """None is created."""
    named = bool(asked.owner_principal_name)
    return CreateDelegationTokenResponse(
        error_code=REFUSED,
        principal_type=(asked.owner_principal_type if named else None) or USER,
        principal_name=asked.owner_principal_name or ANONYMOUS,
        token_requester_principal_type=USER,
        token_requester_principal_name=ANONYMOUS,
        issue_timestamp_ms=NEVER,
        expiry_timestamp_ms=NEVER,
        max_timestamp_ms=NEVER,
    )


@api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, RenewDelegationTokenRequest, authorize=OWN)
def renew_delegation_token(
    _: Request, __: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """There is none to renew."""
    return RenewDelegationTokenResponse(error_code=REFUSED, expiry_timestamp_ms=NEVER)


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, ExpireDelegationTokenRequest, authorize=OWN)
def expire_delegation_token(
    _: Request, __: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """There is none to end."""
    return ExpireDelegationTokenResponse(error_code=REFUSED, expiry_timestamp_ms=NEVER)


@api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 1, 3, DescribeDelegationTokenRequest, authorize=OWN)
def describe_delegation_token(
    _: Request, __: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """There is none to describe."""
    return DescribeDelegationTokenResponse(error_code=REFUSED)
