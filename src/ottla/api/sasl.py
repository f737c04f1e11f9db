"""SaslHandshake, versions 0 and 1, and SaslAuthenticate, 0 to 2: nobody has to log in here.

As in Kafka, a client that wants to on a listener without SASL gets an error.
"""

from typing import Final

from ottla.api.authorization import Public
from ottla.api.registry import Request, api
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

PUBLIC: Final = Public("who logs in is not known yet")
WHY: Final = "SaslAuthenticate request received after successful authentication"


@api(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeRequest, authorize=PUBLIC)
def sasl_handshake(_: Request, __: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """There are no mechanisms."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


@api(ApiKey.SASL_AUTHENTICATE, 0, 2, SaslAuthenticateRequest, authorize=PUBLIC)
def sasl_authenticate(_: Request, __: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Everyone is who they are already."""
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=WHY)
