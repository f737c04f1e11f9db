"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken.

KIPs: 48, 373 (tokens for others). As in Kafka, who is not authenticated, or is by a token, can have
none; renewing and expiring is for its owner and its renewers.
"""

import uuid
from typing import Final

from ottla.api.authorization import Inside, Public
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.delegation_tokens import (
    find_token,
    keep_token,
    remove_token,
    secret_of,
    tokens_of,
)
from ottla.log.storage.folder import uuid_to_text
from ottla.security.operations import Operation, ResourceType
from ottla.security.principal import ANONYMOUS, USER, Principal
from ottla.security.tokens import DelegationToken, expired, new_token, renewed, token_hmac
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
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

NEVER: Final = -1
OWN: Final = Public("a token is for its owner and its renewers, whatever the ACLs say")


@api(
    ApiKey.CREATE_DELEGATION_TOKEN,
    1,
    3,
    CreateDelegationTokenRequest,
    authorize=Inside((Operation.CREATE_TOKENS, ResourceType.USER)),
)
async def create_delegation_token(
    request: Request, asked: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Make a token for the client, or for another user if it may."""
    requester, owner = request.access.principal, request.access.principal
    if asked.owner_principal_name:
        owner = Principal(asked.owner_principal_type or USER, asked.owner_principal_name)
    answer = CreateDelegationTokenResponse(
        principal_type=owner.kind,
        principal_name=owner.name,
        token_requester_principal_type=requester.kind,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=NEVER,
        expiry_timestamp_ms=NEVER,
        max_timestamp_ms=NEVER,
    )
    node = request.node
    try:
        _check_may_have_tokens(request)
        if owner != requester:
            request.access.check(Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
        secret = secret_of(node.config)
        token = new_token(
            uuid_to_text(uuid.uuid4()),
            owner,
            requester,
            [Principal(each.principal_type, each.principal_name) for each in asked.renewers],
            now=node.now_ms(),
            wanted_ms=asked.max_lifetime_ms,
            longest_ms=node.config.delegation_token_max_lifetime_ms,
            expiry_ms=node.config.delegation_token_expiry_time_ms,
        )
        await keep_token(node.metadata, token)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        answer.error_code, _ = error_of(problem)
        return answer
    answer.issue_timestamp_ms = token.issued_at
    answer.expiry_timestamp_ms = token.expires_at
    answer.max_timestamp_ms = token.max_at
    answer.token_id = token.id
    answer.hmac = token_hmac(secret, token.id)
    return answer


@api(ApiKey.RENEW_DELEGATION_TOKEN, 1, 2, RenewDelegationTokenRequest, authorize=OWN)
async def renew_delegation_token(
    request: Request, asked: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Let a token live on."""
    node = request.node
    try:
        _check_may_have_tokens(request)
        token = renewed(
            find_token(node.config, node.image, asked.hmac),
            request.access.principal,
            now=node.now_ms(),
            wanted_ms=asked.renew_period_ms,
            expiry_ms=node.config.delegation_token_expiry_time_ms,
        )
        await keep_token(node.metadata, token)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, _ = error_of(problem)
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)
    return RenewDelegationTokenResponse(expiry_timestamp_ms=token.expires_at)


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, 1, 2, ExpireDelegationTokenRequest, authorize=OWN)
async def expire_delegation_token(
    request: Request, asked: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """End a token, now or soon."""
    node = request.node
    try:
        _check_may_have_tokens(request)
        token, now = find_token(node.config, node.image, asked.hmac), node.now_ms()
        principal = request.access.principal
        left = expired(token, principal, now=now, period_ms=asked.expiry_time_period_ms)
        if left is None:
            await remove_token(node.metadata, token.id)
        else:
            await keep_token(node.metadata, left)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        code, _ = error_of(problem)
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)
    ends = now if left is None else left.expires_at
    return ExpireDelegationTokenResponse(expiry_timestamp_ms=ends)


@api(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    1,
    3,
    DescribeDelegationTokenRequest,
    authorize=Inside(
        (Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN),
        (Operation.DESCRIBE_TOKENS, ResourceType.USER),
    ),
)
def describe_delegation_token(
    request: Request, asked: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """The tokens of the owners named, or all, as far as the client may see them."""
    try:
        _check_may_have_tokens(request)
        secret = secret_of(request.node.config)
    except KafkaError as problem:
        return DescribeDelegationTokenResponse(error_code=problem.code)
    owners = None
    if asked.owners is not None:
        owners = [Principal(each.principal_type, each.principal_name) for each in asked.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, secret)
            for token in tokens_of(request.node.image)
            if (owners is None or any(token.may_change(owner) for owner in owners))
            and _sees(request, token)
        ]
    )


def _check_may_have_tokens(request: Request) -> None:
    if request.access.principal == ANONYMOUS or request.access.via_token:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _sees(request: Request, token: DelegationToken) -> bool:
    access = request.access
    return (
        token.may_change(access.principal)
        or access.allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.id)
        or access.allows(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _described(token: DelegationToken, secret: str) -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        token_requester_principal_type=token.requester.kind,
        token_requester_principal_name=token.requester.name,
        issue_timestamp=token.issued_at,
        expiry_timestamp=token.expires_at,
        max_timestamp=token.max_at,
        token_id=token.id,
        hmac=token_hmac(secret, token.id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=each.kind, principal_name=each.name)
            for each in token.renewers
        ],
    )
