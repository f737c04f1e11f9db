"""ApiVersions, versions 0 to 4: what this broker serves, asked first by every client.

A version we do not know is answered in version 0 with UNSUPPORTED_VERSION and our range of
this one API, so that the client can ask again (KIP-511). KIP-584: features.
"""

import re

from ottla.api.authorization import Public
from ottla.api.registry import ENDPOINTS, Outcome, Request, raw_api
from ottla.wire import codec
from ottla.wire.apis import ApiKey
from ottla.wire.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

FIRST, LAST = 0, 4
FIRST_WITH_MINIMUM_0 = 4
"""Older versions leave out features whose minimum is 0: older clients cannot parse them."""
FEATURES = {
    "group.version": (0, 1),
    "metadata.version": (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}
"""The least level and the one in use. Clients choose their protocol by group.version (KIP-848),
share.version (KIP-932), streams.version (KIP-1071) and transaction.version (KIP-890); tools take
from metadata.version, 3.3-IV3 to 4.3-IV0, which Kafka it is."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


@raw_api(ApiKey.API_VERSIONS, FIRST, LAST, authorize=Public("clients ask it before they log in"))
def api_versions(request: Request, body: memoryview, at: int) -> Outcome:
    """List the APIs with their versions."""
    version = request.version
    if not FIRST <= version <= LAST:
        unsupported = ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION,
            api_keys=[_range(ApiKey.API_VERSIONS, FIRST, LAST)],
        )
        return (codec.encode(unsupported, 0),)
    asked = codec.decode(ApiVersionsRequest, version, body, at)
    if version >= 3 and not (
        _SOFTWARE.fullmatch(asked.client_software_name)
        and _SOFTWARE.fullmatch(asked.client_software_version)
    ):
        return (codec.encode(ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST), version),)
    answer = ApiVersionsResponse(
        api_keys=[
            _range(endpoint.key, endpoint.first, endpoint.last)
            for endpoint in sorted(ENDPOINTS.values(), key=lambda endpoint: endpoint.key)
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=least, max_version=level)
            for name, (least, level) in FEATURES.items()
            if least or version >= FIRST_WITH_MINIMUM_0
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, (_, level) in FEATURES.items()
        ],
    )
    return (codec.encode(answer, version),)


def _range(key: int, first: int, last: int) -> ApiVersion:
    # Produce is advertised from 0 (see produce.py).
    return ApiVersion(
        api_key=key, min_version=0 if key == ApiKey.PRODUCE else first, max_version=last
    )
