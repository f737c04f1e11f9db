"""SASL and delegation tokens on a PLAINTEXT listener: refused as by Apache Kafka, in words."""

import pytest

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
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from testkit.raw import Connection


@pytest.mark.parametrize("version", [0, 1])
def test_who_wants_to_log_in_is_told_that_nobody_can(connection: Connection, version: int) -> None:
    request = SaslHandshakeRequest(mechanism="PLAIN")
    answer = connection.ask(request, SaslHandshakeResponse, version)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_logs_in_all_the_same_is_refused(connection: Connection, version: int) -> None:
    request = SaslAuthenticateRequest(auth_bytes=b"\0me\0secret")
    answer = connection.ask(request, SaslAuthenticateResponse, version)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert (
        answer.error_message == "SaslAuthenticate request received after successful authentication"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_who_is_not_authenticated_has_no_delegation_tokens(
    connection: Connection, version: int
) -> None:
    refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    created = connection.ask(
        CreateDelegationTokenRequest(), CreateDelegationTokenResponse, version + 1
    )
    assert (created.error_code, created.principal_name) == (refused, "ANONYMOUS")
    renewed = connection.ask(RenewDelegationTokenRequest(), RenewDelegationTokenResponse, version)
    assert (renewed.error_code, renewed.expiry_timestamp_ms) == (refused, -1)
    ended = connection.ask(ExpireDelegationTokenRequest(), ExpireDelegationTokenResponse, version)
    assert (ended.error_code, ended.expiry_timestamp_ms) == (refused, -1)
    everyone = DescribeDelegationTokenRequest(owners=None)
    told = connection.ask(everyone, DescribeDelegationTokenResponse, version + 1)
    assert (told.error_code, told.tokens) == (refused, [])
