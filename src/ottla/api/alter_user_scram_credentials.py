"""AlterUserScramCredentials, version 0: set and remove SCRAM credentials (KIP-554).

The client salts the password; the broker stores what verifies it.
"""

from ottla.api.authorization import OnCluster
from ottla.api.registry import Request, api, error_of
from ottla.broker.metadata.security import CredentialDeletion, Upsertion, alter_credentials
from ottla.security.operations import Operation
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def _refuse(
    asked: AlterUserScramCredentialsRequest,
    code: ErrorCode,
    why: str | None = "Cluster authorization failed.",
) -> AlterUserScramCredentialsResponse:
    names = dict.fromkeys(
        [each.name for each in asked.deletions] + [each.name for each in asked.upsertions]
    )
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=code, error_message=why)
            for name in names
        ]
    )


@api(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    0,
    0,
    AlterUserScramCredentialsRequest,
    authorize=OnCluster(Operation.ALTER, _refuse),
)
async def alter_user_scram_credentials(
    request: Request, asked: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse:
    """Change each user's credentials; one user's failure is not the others'."""
    deletions = [CredentialDeletion(each.name, each.mechanism) for each in asked.deletions]
    upsertions = [
        Upsertion(each.name, each.mechanism, each.iterations, each.salt, each.salted_password)
        for each in asked.upsertions
    ]
    try:
        outcomes = await alter_credentials(request.node.metadata, deletions, upsertions)
    except Exception as problem:  # noqa: BLE001 the reply says what went wrong
        return _refuse(asked, *error_of(problem))
    return AlterUserScramCredentialsResponse(
        results=[_result(name, wrong) for name, wrong in outcomes.items()]
    )


def _result(name: str, wrong: KafkaError | None) -> AlterUserScramCredentialsResult:
    if wrong is None:
        return AlterUserScramCredentialsResult(user=name, error_message=None)
    return AlterUserScramCredentialsResult(
        user=name, error_code=wrong.code, error_message=wrong.message
    )
